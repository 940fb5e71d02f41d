//! Nodes, as operators manage them. The protocol between agents and the server is a separate contract.

use jiff::Timestamp;
use muster_ids::{EnrolmentId, NodeId};
use muster_wire::difference::Change;
use muster_wire::inventory::Inventory;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::Capacity;
use crate::operation::Started;
use crate::shape::{Labels, page};
use crate::slot::Slot;
use crate::{Endpoint, shape};

pub use muster_model::node::NodeState;

/// An enrolled machine.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Name, unique among nodes that are not retired.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Summary state, derived from the fields beside it.
    pub state: NodeState,
    /// Whether it accepts no new allocations.
    pub cordoned: bool,
    /// Whether it is being drained.
    pub draining: bool,
    /// Time since which it has been unreachable.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unreachable_since: Option<Timestamp>,
    /// Time of retirement.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retired_at: Option<Timestamp>,
    /// Approved capacity, including quarantined GPUs.
    pub total: Capacity,
    /// Capacity not held, without quarantined GPUs.
    pub free: Capacity,
    /// Number of allocations that hold capacity on it.
    pub allocations: i64,
    /// Digest of the hardware that its agent last reported; pass it to `node_approve`.
    pub inventory_digest: String,
    /// Digest of the approved hardware.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved_digest: Option<String>,
    /// Time of approval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved_at: Option<Timestamp>,
    /// Whether the reported hardware or address differs from the approved one.
    pub needs_approval: bool,
    /// Time of the last heartbeat, accurate to a few seconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seen_at: Option<Timestamp>,
    /// Version of the agent.
    pub agent_version: String,
    /// Expiry of its certificate.
    pub certificate_until: Timestamp,
    /// Name of the file system it shares with other nodes; nodes with the same name share the same one. Apps whose
    /// members share directories run only on such nodes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shared_files: Option<String>,
    /// Address at which other nodes reach it, as approved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Address last reported by its agent. A different address is not used before it is approved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reported_address: Option<String>,
    /// Source address of that report: the same, unless there is a proxy or NAT in between.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peer_address: Option<String>,
    /// Time of joining.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
    /// Hardware removed, added or changed since the approval; only when a single node is returned, and only if there is
    /// any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub difference: Option<Vec<Change>>,
    /// Its slots and their holders; only when a single node is returned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slots: Option<Vec<Slot>>,
    /// Hardware last reported by its agent; only when a single node is returned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inventory: Option<Inventory>,
}

/// An enrolment token for one machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeEnrol {
    /// Existing node, by id or name, to re-enrol: its certificate has expired, or its disk was replaced. It keeps its
    /// name, labels and allocations. Excludes `name` and `labels`.
    #[schema(min_length = 1, max_length = 100, example = "gpu-17")]
    pub node: Option<String>,
    /// Name of the new node; default: the machine's host name.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "gpu-17")]
    pub name: Option<String>,
    /// Labels of the new node.
    pub labels: Option<Labels>,
    /// Lifetime of the token; default: one hour, at most a week.
    #[schema(minimum = 60, maximum = 604800)]
    pub expires_in_seconds: Option<u32>,
}

/// A single-use enrolment for one machine.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NodeEnrolment {
    /// Its id.
    pub id: EnrolmentId,
    /// Node that gets a new certificate; absent for a new node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// Name of the node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Labels of the node.
    pub labels: Labels,
    /// Expiry of the token.
    pub expires_at: Timestamp,
    /// SHA-256 of the platform's certificate authority for nodes, which authenticates the server to the machine.
    pub ca_sha256: String,
    /// The token; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
    /// Command to run on the machine, once the token is in a file there: command lines are world-readable.
    pub command: String,
    /// True in a replayed response: the token was only in the first one and is not stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub secret_shown_once: Option<bool>,
}

/// Filters for listing nodes.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `rack=7,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only those in this state.
    pub state: Option<NodeState>,
}

/// Properties of a node that can change.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeUpdate {
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
    /// The `reported_address` that other nodes should use from now on.
    #[schema(max_length = 45)]
    pub address: Option<String>,
}

/// Hardware to approve.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeApprove {
    /// The `inventory_digest` that you reviewed.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// The `reported_address` that you reviewed; default: the one reported now.
    #[schema(max_length = 45)]
    pub address: Option<String>,
}

/// A reason.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeReason {
    /// Reason, for the audit log and the event.
    #[schema(min_length = 1, max_length = 500, example = "firmware update")]
    pub reason: Option<String>,
}

page! {
    /// A page of nodes.
    NodePage of Node
}

/// Options for draining a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDrain {
    /// Seconds its tenants have to release their allocations; default: one hour.
    #[schema(minimum = 0, maximum = 2592000)]
    pub deadline_seconds: Option<u32>,
    /// Also replace members that stop before their successors start, and release what is left at the deadline. Without
    /// it, such members stay and the operation is blocked at the deadline.
    pub force: Option<bool>,
    /// Reason, for the audit log and the tenants' timelines.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Options for comparing a node with the database.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAudit {
    /// Remove orphans.
    pub repair: Option<bool>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Options for retiring a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeRetire {
    /// An operator's attestation that nothing of the platform is left on it; only for an unreachable node.
    #[schema(min_length = 10, max_length = 1000)]
    pub attest: Option<String>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("node_enrol", "/v1/nodes/enrol", shape::<NodeEnrol>(), shape::<NodeEnrolment>())
        .needs("node.enrol")
        .summary("Issue a join token for one machine")
        .description(
            "The token is shown once and can be used once; only a repeat with the same key, by a machine \
             that missed the response, gets it again until the token expires. A new node gets no work until \
             it is approved. With `node`, an existing node gets a new certificate, and its old one becomes \
             invalid at the join.",
        ),
    Endpoint::read("node_list", "/v1/nodes", shape::<NodePage>())
        .needs("node.list")
        .query(shape::<NodeListQuery>())
        .summary("List nodes"),
    Endpoint::read("node_get", "/v1/nodes/{node}", shape::<Node>())
        .needs("node.get")
        .summary("Show a node, its hardware and its allocations"),
    Endpoint::update("node_update", "/v1/nodes/{node}", shape::<NodeUpdate>(), shape::<Node>())
        .needs("node.update")
        .summary("Change a node's labels"),
    Endpoint::act("node_approve", "/v1/nodes/{node}/approve", shape::<NodeApprove>(), shape::<Node>())
        .versioned()
        .needs("node.approve")
        .summary("Approve a node's hardware for use")
        .description(
            "Names the hardware by its digest, so that the approval is for the hardware that was shown. Its \
             GPUs become usable, GPUs that are gone are retired; a quarantined slot stays quarantined.",
        ),
    Endpoint::act("node_cordon", "/v1/nodes/{node}/cordon", shape::<NodeReason>(), shape::<Node>())
        .needs("node.cordon")
        .summary("Cordon a node: it gets no new work")
        .description("Its allocations stay. `node_uncordon` reverts it."),
    Endpoint::act("node_uncordon", "/v1/nodes/{node}/uncordon", shape::<NodeReason>(), shape::<Node>())
        .needs("node.uncordon")
        .summary("Uncordon a node"),
    Endpoint::start("node_drain", "/v1/nodes/{node}/drain", shape::<NodeDrain>(), shape::<Started>())
        .needs("node.drain")
        .summary("Drain a node")
        .description("Prevents new allocations, and waits until its tenants have released theirs. At the deadline, `force` releases the rest, protected or not; otherwise the operation is blocked."),
    Endpoint::start("node_audit", "/v1/nodes/{node}/audit", shape::<NodeAudit>(), shape::<Started>())
        .needs("node.audit")
        .summary("Compare a node with the database, in both directions")
        .description("Finds resources on the node without rows (orphans), and rows without resources (missing). With `repair`, the node removes the orphans and is verified again; missing resources are only reported."),
    Endpoint::start("node_retire", "/v1/nodes/{node}/retire", shape::<NodeRetire>(), shape::<Started>())
        .needs("node.retire")
        .summary("Retire an empty node from the fleet")
        .description("Verifies that no resource of the platform is left on it; its certificate then becomes invalid. The node must be drained first."),
];
