//! Members of instances, and what can be done with them.

use jiff::Timestamp;
use muster_ids::{AllocationId, AppVersionId, CellId, InstanceId, MemberId, NodeId, OperationId, WitnessId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::{AllocationShape, Capacity};
use crate::cell::ServiceStatus;
use crate::instance::Health;
use crate::operations::Started;
use crate::shape::{Object, page};
use crate::{Operation, shape};

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// It was asked for.
    Requested,
    /// Its place is being made.
    Provisioning,
    /// Its adapter takes it in.
    Joining,
    /// It works, witnessed.
    Active,
    /// Its work goes elsewhere.
    Draining,
    /// No work is on it and none comes, witnessed.
    Drained,
    /// It is being removed.
    Removing,
    /// Nothing is left of it, witnessed or attested.
    Removed,
    /// It did not come to work, or works no more.
    Failed,
}

/// One realised unit of a component.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// Of which instance.
    pub instance_id: InstanceId,
    /// Of which component; the key means something to the app alone.
    pub component_key: String,
    /// Its name, and its host name.
    pub name: String,
    /// What it is.
    pub state: MemberState,
    /// How well it does. What was said of another incarnation does not count.
    pub health: Health,
    /// Why that is so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_message: Option<String>,
    /// What its health rests on, where it is not healthy: a word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_reason: Option<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_advice: Option<String>,
    /// Since when its health is what it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_since: Option<Timestamp>,
    /// Its services, as its node's agent reported them last; how often each was restarted is in it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub services: Vec<ServiceStatus>,
    /// When what it does now is expected to be over, as its adapter said at its last look; in the past if it did nothing then, and
    /// absent where nobody knows. Whoever is free first goes first when fewer are wanted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub free_at: Option<Timestamp>,
    /// Raised whenever its cell is made.
    pub incarnation: i64,
    /// The allocation that it is in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocation_id: Option<AllocationId>,
    /// Whether the platform made that allocation for it.
    pub allocation_made: bool,
    /// The shape of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound_capacity_shape: Option<AllocationShape>,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// Its cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cell_id: Option<CellId>,
    /// Its address in the instance's network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// The release that really runs in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub app_version_id: Option<AppVersionId>,
    /// What its adapter says of it.
    pub adapter_detail: Object,
    /// Why it failed: a word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure_reason: Option<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// What happened, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Whether the rest of its network was told to forget it, because nobody hears from its node.
    pub fenced: bool,
    /// The evidence that it works, or worked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub active_witness_id: Option<WitnessId>,
    /// The evidence that it is drained.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drained_witness_id: Option<WitnessId>,
    /// The evidence that nothing is left of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub removed_witness_id: Option<WitnessId>,
    /// The operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_operation_id: Option<OperationId>,
    /// Its thread.
    pub correlation_id: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

page! {
    /// A page of members.
    MemberPage of Member
}

/// Which members to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Of this component only.
    #[schema(max_length = 32)]
    pub component: Option<String>,
    /// In this state only; those that are removed are not shown otherwise.
    pub state: Option<MemberState>,
}

/// Where a member goes: into an allocation that the project holds, or into one that the platform makes.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MemberAllocation {
    /// One that the project holds, by id or name.
    Id(String),
    /// One that the platform makes, with this capacity.
    Capacity(Capacity),
}

/// Members to be added.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAdd {
    /// To which component.
    #[schema(max_length = 32)]
    pub component_key: String,
    /// How many; one if not given.
    #[schema(minimum = 1, maximum = 1000)]
    pub count: Option<i64>,
    /// Where they go; as the instance's component says, if this is not said.
    pub allocation: Option<MemberAllocation>,
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Until when they must work; half an hour from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// An order about members.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberAct {
    /// Which, by id or name.
    #[schema(min_items = 1, max_items = 1000)]
    pub members: Vec<String>,
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Until when it must be done; half an hour from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// Members to be removed or replaced.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberTake {
    /// Which, by id or name.
    #[schema(min_items = 1, max_items = 1000)]
    pub members: Vec<String>,
    /// Without waiting for them to be drained; needs a permission of its own. It takes over from a drain that is under way.
    pub force: Option<bool>,
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Until when it must be done; an hour from now if this is not said.
    pub ready_until: Option<Timestamp>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

const ON: &str = "/v1/projects/{project}/app-instances/{instance}/members";

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::read("member_list", ON, shape::<MemberPage>())
        .needs("member.list")
        .query(shape::<MemberListQuery>())
        .summary("List the members of an instance"),
    Operation::read(
        "member_get",
        "/v1/projects/{project}/app-instances/{instance}/members/{member}",
        shape::<Member>(),
    )
    .needs("member.get")
    .summary("Show a member"),
    Operation::start(
        "member_add",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/add",
        shape::<MemberAdd>(),
        shape::<Started>(),
    )
    .needs("member.add")
    .summary("Add members to a component")
    .description("A member is active when the platform has seen for itself that it works. One that does not come to work is taken down again, and the component wants one less."),
    Operation::start(
        "member_drain",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/drain",
        shape::<MemberAct>(),
        shape::<Started>(),
    )
    .needs("member.drain")
    .summary("Take members out of work, and see that none is left on them")
    .description("Refused where it would break a component's quorum."),
    Operation::start(
        "member_resume",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/resume",
        shape::<MemberAct>(),
        shape::<Started>(),
    )
    .needs("member.resume")
    .summary("Put drained members back to work"),
    Operation::start(
        "member_remove",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/remove",
        shape::<MemberTake>(),
        shape::<Started>(),
    )
    .needs("member.remove")
    .summary("Drain and remove members, and see that nothing is left of them"),
    Operation::start(
        "member_replace",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/replace",
        shape::<MemberTake>(),
        shape::<Started>(),
    )
    .needs("member.replace")
    .summary("Have new members take the place of these")
    .description("Which comes first is the component's business. A member whose node nobody hears from is cut off first, and stays `removing` until the node returns or an operator attests."),
    Operation::start(
        "member_recover",
        "/v1/projects/{project}/app-instances/{instance}/member-operations/recover",
        shape::<MemberAct>(),
        shape::<Started>(),
    )
    .needs("member.recover")
    .summary("Make failed members anew where they are"),
];
