//! Nodes, as operators see them. What agents say to the server stands in a contract of its own.

use jiff::Timestamp;
use muster_ids::{EnrolmentId, NodeId};
use muster_wire::difference::Change;
use muster_wire::inventory::Inventory;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::Capacity;
use crate::operations::Started;
use crate::shape::{Labels, page};
use crate::slot::Slot;
use crate::{Operation, shape};

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It has joined, and waits for an operator's approval.
    Enrolling,
    /// It takes allocations.
    Ready,
    /// It keeps what it has and takes nothing new.
    Cordoned,
    /// It is being emptied.
    Draining,
    /// Nobody has heard from it. What runs on it may well go on.
    Unreachable,
    /// It is not ours any more.
    Retired,
}

/// An enrolled machine.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Its name, unique among those that are not retired.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// What it is, in one word. The facts behind it stand beside it.
    pub state: NodeState,
    /// Whether it is kept from new work.
    pub cordoned: bool,
    /// Whether it is being emptied.
    pub draining: bool,
    /// Since when nobody has heard from it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unreachable_since: Option<Timestamp>,
    /// When it was retired.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retired_at: Option<Timestamp>,
    /// All it has, as approved. A GPU that is quarantined counts.
    pub total: Capacity,
    /// What is not held. A GPU that is quarantined does not count.
    pub free: Capacity,
    /// How many allocations hold something of it.
    pub allocations: i64,
    /// The digest of the hardware that its agent last found: what `node_approve` is given.
    pub inventory_digest: String,
    /// The digest of the hardware that was approved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved_digest: Option<String>,
    /// When it was approved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved_at: Option<Timestamp>,
    /// Whether the hardware that was found, or the address that is reported, is not the one that was approved.
    pub needs_approval: bool,
    /// When it was last heard, to some seconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seen_at: Option<Timestamp>,
    /// The agent's version.
    pub agent_version: String,
    /// When the certificate that it holds ends.
    pub certificate_until: Timestamp,
    /// Which file system it shares with other nodes: those with the same word have the same one. Apps whose members share directories
    /// run on such nodes alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shared_files: Option<String>,
    /// Where other nodes reach it, as approved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// The address that its agent reported last. Where it is another one, it is not used before it is approved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reported_address: Option<String>,
    /// The address that its agent called from when it reported that: the same, unless something is between.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peer_address: Option<String>,
    /// When it joined.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
    /// What is gone, added or changed since the approval; only where one node is shown, and only if there is any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub difference: Option<Vec<Change>>,
    /// Its slots, with who holds them; only where one node is shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slots: Option<Vec<Slot>>,
    /// What its agent last found; only where one node is shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inventory: Option<Inventory>,
}

/// A right for one machine to join.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeEnrol {
    /// A node that is there, by id or name, for whose machine this is: its certificate has ended, or its disk was replaced.
    /// It keeps its name, its labels and what it holds. Not together with `name` or `labels`.
    #[schema(min_length = 1, max_length = 100, example = "gpu-17")]
    pub node: Option<String>,
    /// The name a new node must take; the machine's own name for itself if not given.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "gpu-17")]
    pub name: Option<String>,
    /// Labels that a new node gets.
    pub labels: Option<Labels>,
    /// How long the token can be used; an hour if not given, a week at most.
    #[schema(minimum = 60, maximum = 604800)]
    pub expires_in_seconds: Option<u32>,
}

/// A right for one machine to join, once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NodeEnrolment {
    /// Its id.
    pub id: EnrolmentId,
    /// The node that is given a new certificate, where it is not for a new one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// The name the node must take, or has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Labels that the node gets, or has.
    pub labels: Labels,
    /// Until when the token can be used.
    pub expires_at: Timestamp,
    /// SHA-256 of the platform's certificate authority for nodes, by which the machine knows the server.
    pub ca_sha256: String,
    /// The token, in the one answer that shows it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
    /// What to run on the machine, once the token is in a file there: command lines can be read by everybody.
    pub command: String,
    /// True in a replayed answer: the token was in the first one and is kept nowhere.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub secret_shown_once: Option<bool>,
}

/// What lists of nodes take.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those with these labels: `rack=7,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only those in this state.
    pub state: Option<NodeState>,
}

/// What of a node can change.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeUpdate {
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
    /// The `reported_address` that other nodes should use from now on.
    #[schema(max_length = 45)]
    pub address: Option<String>,
}

/// Hardware to be approved.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeApprove {
    /// The `inventory_digest` of what you looked at.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// The `reported_address` of what you looked at; the one that is reported now if not given.
    #[schema(max_length = 45)]
    pub address: Option<String>,
}

/// Why.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeReason {
    /// Why, for the audit and for whoever reads the event.
    #[schema(min_length = 1, max_length = 500, example = "firmware update")]
    pub reason: Option<String>,
}

page! {
    /// A page of nodes.
    NodePage of Node
}

/// How a node is emptied.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDrain {
    /// How long its tenants have to release what they hold on it; an hour if not given.
    #[schema(minimum = 0, maximum = 2592000)]
    pub deadline_seconds: Option<u32>,
    /// Also replace members that stop before their successors start, and release what is left at the deadline. Without it such
    /// members stay, and the operation is blocked at the deadline.
    pub force: Option<bool>,
    /// For the audit, and for the tenants' timelines.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// How a node is compared with what is written of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAudit {
    /// Remove what belongs to nothing.
    pub mend: Option<bool>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// How a node leaves the fleet.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeRetire {
    /// An operator's word that nothing of ours is left on it: only for a node that is unreachable.
    #[schema(min_length = 10, max_length = 1000)]
    pub attest: Option<String>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("node_enrol", "/v1/nodes/enrol", shape::<NodeEnrol>(), shape::<NodeEnrolment>())
        .needs("node.enrol")
        .summary("Give one machine the right to join")
        .description(
            "The token is shown once and can be used once; only a repeat with the same key, by a machine that did not hear the \
             answer, is answered again until the token ends. What joins as a new node takes nothing until it is approved. With \
             `node` an existing node is given a new certificate, and from the moment of the join its old one opens nothing.",
        ),
    Operation::read("node_list", "/v1/nodes", shape::<NodePage>())
        .needs("node.list")
        .query(shape::<NodeListQuery>())
        .summary("List nodes"),
    Operation::read("node_get", "/v1/nodes/{node}", shape::<Node>())
        .needs("node.get")
        .summary("Show a node, its hardware and who holds it"),
    Operation::update("node_update", "/v1/nodes/{node}", shape::<NodeUpdate>(), shape::<Node>())
        .needs("node.update")
        .summary("Change a node's labels"),
    Operation::act("node_approve", "/v1/nodes/{node}/approve", shape::<NodeApprove>(), shape::<Node>())
        .versioned()
        .needs("node.approve")
        .summary("Approve a node's hardware, so that it can be used")
        .description(
            "Names the hardware by its digest, so that nobody approves what they have not seen. GPUs in it become \
             usable, GPUs that are gone are retired; a slot that is quarantined stays so.",
        ),
    Operation::act("node_cordon", "/v1/nodes/{node}/cordon", shape::<NodeReason>(), shape::<Node>())
        .needs("node.cordon")
        .summary("Keep new work from a node")
        .description("What is on the node stays there. `node_uncordon` is the way back."),
    Operation::act("node_uncordon", "/v1/nodes/{node}/uncordon", shape::<NodeReason>(), shape::<Node>())
        .needs("node.uncordon")
        .summary("Let a node take new work again"),
    Operation::start("node_drain", "/v1/nodes/{node}/drain", shape::<NodeDrain>(), shape::<Started>())
        .needs("node.drain")
        .summary("Empty a node")
        .description("Keeps new allocations away, and waits until its tenants have released what they hold on it. At the deadline the rest is released if `force` says so, protected or not, and otherwise the operation is parked."),
    Operation::start("node_audit", "/v1/nodes/{node}/audit", shape::<NodeAudit>(), shape::<Started>())
        .needs("node.audit")
        .summary("Compare a node with what is written of it, both ways")
        .description("Finds things on the node without rows, and rows without things. With `mend`, the node removes what belongs to nothing and is looked at again; what is missing is only told of."),
    Operation::start("node_retire", "/v1/nodes/{node}/retire", shape::<NodeRetire>(), shape::<Started>())
        .needs("node.retire")
        .summary("Take an empty node out of the fleet")
        .description("Looks whether anything of ours is left on it; from then on its certificate opens nothing. The node must be drained first."),
];
