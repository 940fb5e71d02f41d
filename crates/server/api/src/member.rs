//! Members of instances, and the actions on them.

use jiff::Timestamp;
use muster_ids::{AllocationId, AppVersionId, CellId, InstanceId, MemberId, NodeId, OperationId, WitnessId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::{AllocationShape, Capacity};
use crate::cell::ServiceStatus;
use crate::instance::Health;
use crate::operation::Started;
use crate::shape::{Object, page};
use crate::{Endpoint, shape};

pub use muster_model::member::MemberState;

/// A single running unit of a component.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// The instance.
    pub instance_id: InstanceId,
    /// The component; its key is meaningful to the app only.
    pub component_key: String,
    /// Name and host name.
    pub name: String,
    /// Current state.
    pub state: MemberState,
    /// Current health. Reports on other incarnations do not count.
    pub health: Health,
    /// Explanation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_message: Option<String>,
    /// Cause of a health other than healthy, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_reason: Option<String>,
    /// Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_advice: Option<String>,
    /// Time of the last change of its health.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_since: Option<Timestamp>,
    /// Its services and their restart counts, as last reported by the node's agent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub services: Vec<ServiceStatus>,
    /// Time at which its current work is expected to end, from its adapter's last report; in the past if it was idle,
    /// absent if unknown. Scaling down removes the members that become free first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub free_at: Option<Timestamp>,
    /// Incremented each time its cell is created.
    pub incarnation: i64,
    /// Its allocation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocation_id: Option<AllocationId>,
    /// Whether the platform created that allocation for it.
    pub allocation_made: bool,
    /// Shape of the allocation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound_capacity_shape: Option<AllocationShape>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// Its cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cell_id: Option<CellId>,
    /// Its address in the instance's network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Release that actually runs in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub app_version_id: Option<AppVersionId>,
    /// Detail last reported by its adapter.
    pub adapter_detail: Object,
    /// Failure reason, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure_reason: Option<String>,
    /// Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Whether its network peers dropped it, because its node is unreachable.
    pub fenced: bool,
    /// Evidence that it is, or was, in service.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub active_witness_id: Option<WitnessId>,
    /// The evidence that it is drained.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drained_witness_id: Option<WitnessId>,
    /// Evidence that nothing of it is left.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub removed_witness_id: Option<WitnessId>,
    /// Operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_operation_id: Option<OperationId>,
    /// Correlation id.
    pub correlation_id: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

page! {
    /// A page of members.
    MemberPage of Member
}

/// Filters for listing members.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those of this component.
    #[schema(max_length = 32)]
    pub component: Option<String>,
    /// Only those in this state; removed ones are not listed otherwise.
    pub state: Option<MemberState>,
}

/// Allocation for a member: one that the project holds, or one that the platform creates.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MemberAllocation {
    /// An allocation of the project, by id or name.
    Id(String),
    /// A new allocation with this capacity.
    Capacity(Capacity),
}

/// Members to add.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAdd {
    /// The component.
    #[schema(max_length = 32)]
    pub component_key: String,
    /// Number of members; default: 1.
    #[schema(minimum = 1, maximum = 1000)]
    pub count: Option<i64>,
    /// Allocation for them; default: as configured for the instance's component.
    pub allocation: Option<MemberAllocation>,
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Deadline for them to be active; default: 30 minutes from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// An action on members.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAct {
    /// Members, by id or name.
    #[schema(min_items = 1, max_items = 1000)]
    pub members: Vec<String>,
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Deadline; default: 30 minutes from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Members to remove or replace.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberTake {
    /// Members, by id or name.
    #[schema(min_items = 1, max_items = 1000)]
    pub members: Vec<String>,
    /// Skip draining; needs its own permission. Supersedes a running drain.
    pub force: Option<bool>,
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Deadline; default: one hour from now.
    pub ready_until: Option<Timestamp>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

const ON: &str = "/v1/projects/{project}/app-instances/{instance}/members";

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("member_list", ON, shape::<MemberPage>())
        .needs("member.list")
        .query(shape::<MemberListQuery>())
        .summary("List the members of an instance"),
    Endpoint::read(
        "member_get",
        "/v1/projects/{project}/app-instances/{instance}/members/{member}",
        shape::<Member>(),
    )
    .needs("member.get")
    .summary("Show a member"),
    Endpoint::start(
        "member_add",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/add",
        shape::<MemberAdd>(),
        shape::<Started>(),
    )
    .needs("member.add")
    .summary("Add members to a component")
    .description("A member is active when the platform has verified that it works. A member that fails to start is rolled back, and the component's desired number decreases by one."),
    Endpoint::start(
        "member_drain",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/drain",
        shape::<MemberAct>(),
        shape::<Started>(),
    )
    .needs("member.drain")
    .summary("Drain members and verify that no work is left on them")
    .description("Refused if it would break a component's quorum."),
    Endpoint::start(
        "member_resume",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/resume",
        shape::<MemberAct>(),
        shape::<Started>(),
    )
    .needs("member.resume")
    .summary("Resume drained members"),
    Endpoint::start(
        "member_remove",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/remove",
        shape::<MemberTake>(),
        shape::<Started>(),
    )
    .needs("member.remove")
    .summary("Drain and remove members and verify that nothing of them is left"),
    Endpoint::start(
        "member_replace",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/replace",
        shape::<MemberTake>(),
        shape::<Started>(),
    )
    .needs("member.replace")
    .summary("Replace members with new ones")
    .description("The component's manifest defines which comes first. A member on an unreachable node is fenced first, and stays `removing` until the node returns or an operator attests."),
    Endpoint::start(
        "member_recover",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/recover",
        shape::<MemberAct>(),
        shape::<Started>(),
    )
    .needs("member.recover")
    .summary("Recover failed members in place"),
];
