//! Allocations: a project's right to capacity on exactly one node.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, OperationId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::{AllocationShape, Capacity};
use crate::operations::{Started, Witness, WitnessKind};
use crate::shape::{Labels, page};
use crate::{Operation, shape};

/// What an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllocationState {
    /// It was asked for.
    Requested,
    /// A node is looked for, or it waits in line for one.
    Placing,
    /// Its place on the node is being made.
    Provisioning,
    /// It is there, witnessed.
    Active,
    /// Its place is being destroyed.
    Releasing,
    /// Its place is gone, and what it held is being wiped.
    Wiping,
    /// Nothing of it is left, witnessed or attested.
    Released,
    /// It never came to be, and nothing of it is left.
    Failed,
}

/// How a node is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The node with the fewest GPUs left over.
    #[default]
    Pack,
    /// The node with the most GPUs left over.
    Spread,
}

/// An allocation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Allocation {
    /// Its id.
    pub id: AllocationId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project that holds it.
    pub project_id: ProjectId,
    /// Its name, unique in the project among those that live.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// What kind of place.
    pub shape: AllocationShape,
    /// What was asked for.
    pub capacity: Capacity,
    /// How a node is chosen.
    pub strategy: Strategy,
    /// What it is.
    pub state: AllocationState,
    /// The node it is on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// Raised whenever its place is made.
    pub incarnation: i64,
    /// What it holds of the node now.
    pub held: Capacity,
    /// Why it failed or cannot go on: a word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// What happened, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// How we know that it is active, or released; absent in other states.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<WitnessKind>,
    /// The operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// How many wait in line before it; only where one allocation is shown, and only while it waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before_in_line: Option<i64>,
    /// Until when it waits in line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_until: Option<Timestamp>,
    /// When it is released by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
    /// Whether its release is refused.
    pub protected: bool,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// An allocation to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationCreate {
    /// Its name, unique in the project among those that live.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "train-1")]
    pub name: String,
    /// Labels.
    pub labels: Option<Labels>,
    /// What kind of place; `gpu_slice` if not given.
    pub shape: Option<AllocationShape>,
    /// GPUs; none if not given, which is legal.
    #[schema(minimum = 0, maximum = 64)]
    pub gpus: Option<i64>,
    /// Logical CPUs; 1 if not given.
    #[schema(minimum = 1, maximum = 4096)]
    pub cpus: Option<i64>,
    /// Memory in MiB; 1024 if not given.
    #[schema(minimum = 1, maximum = 67108864)]
    pub memory_mb: Option<i64>,
    /// Disk in MiB; 1024 if not given.
    #[schema(minimum = 0, maximum = 1073741824)]
    pub disk_mb: Option<i64>,
    /// How a node is chosen; `pack` if not given.
    pub strategy: Option<Strategy>,
    /// Wait in line until then if there is no room now. Without it, no room is a refusal at once.
    pub wait_until: Option<Timestamp>,
    /// Release it by itself at that time.
    pub expires_at: Option<Timestamp>,
    /// Refuse its release until this is taken away.
    pub protected: Option<bool>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// What of an allocation can change at once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationUpdate {
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
    /// Release it by itself at that time.
    pub expires_at: Option<Timestamp>,
    /// Take the expiry away.
    pub never_expires: Option<bool>,
    /// Whether its release is refused.
    pub protected: Option<bool>,
}

/// How an allocation is made anew.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationRestart {
    /// For the audit.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
    /// Do not drain the members in it first, and restart them also where their component's quorum is lost meanwhile.
    pub force: Option<bool>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// How an allocation is given back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationRelease {
    /// For the audit.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
    /// Remove the members of instances in it first. Without it an allocation that holds members is not released.
    pub cascade: Option<bool>,
    /// With `cascade`: remove them without draining, and also where their instance needs them.
    pub force: Option<bool>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// Another size.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationResize {
    /// GPUs; as before if not given, like the others.
    #[schema(minimum = 0, maximum = 64)]
    pub gpus: Option<i64>,
    /// Logical CPUs.
    #[schema(minimum = 1, maximum = 4096)]
    pub cpus: Option<i64>,
    /// Memory in MiB.
    #[schema(minimum = 1, maximum = 67108864)]
    pub memory_mb: Option<i64>,
    /// Disk in MiB.
    #[schema(minimum = 0, maximum = 1073741824)]
    pub disk_mb: Option<i64>,
    /// Restart the cells in it, which a change of its GPUs needs: a cell has the GPUs that it was made with.
    pub restart: Option<bool>,
    /// With `restart`: do not drain the members in it first, and restart them also where their component's quorum is lost.
    pub force: Option<bool>,
    /// Only show the plan.
    pub dry_run: Option<bool>,
}

/// An operator's word.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationAttest {
    /// What is attested and how it is known: the machine was powered off, its disks were pulled.
    #[schema(min_length = 10, max_length = 1000)]
    pub statement: String,
}

/// One state that an allocation went through.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Phase {
    /// Which.
    pub state: AllocationState,
    /// From when.
    pub at: Timestamp,
    /// For how long, in milliseconds; until now for the one it is in, absent for a final one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub milliseconds: Option<i64>,
    /// By which operation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// What an allocation went through.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// The states, oldest first.
    pub phases: Vec<Phase>,
    /// The evidence, oldest first.
    pub witnesses: Vec<Witness>,
}

/// Which allocations to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those with these labels: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// In this state only.
    pub state: Option<AllocationState>,
}

page! {
    /// A page of allocations.
    AllocationPage of Allocation
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::start(
        "allocation_create",
        "/v1/projects/{project}/allocations",
        shape::<AllocationCreate>(),
        shape::<Started>(),
    )
    .needs("allocation.create")
    .summary("Ask for capacity on a node")
    .description("The operation finds a node, claims what is asked for, has the node make the place and looks at it; only then is the allocation active."),
    Operation::read("allocation_list", "/v1/projects/{project}/allocations", shape::<AllocationPage>())
        .needs("allocation.list")
        .query(shape::<AllocationListQuery>())
        .summary("List a project's allocations"),
    Operation::read("allocation_get", "/v1/projects/{project}/allocations/{allocation}", shape::<Allocation>())
        .needs("allocation.get")
        .summary("Show an allocation"),
    Operation::read(
        "allocation_timeline",
        "/v1/projects/{project}/allocations/{allocation}/timeline",
        shape::<Timeline>(),
    )
    .needs("allocation.timeline")
    .summary("Show what an allocation went through, with durations and evidence"),
    Operation::update(
        "allocation_update",
        "/v1/projects/{project}/allocations/{allocation}",
        shape::<AllocationUpdate>(),
        shape::<Allocation>(),
    )
    .needs("allocation.update")
    .summary("Change an allocation's labels, expiry or protection"),
    Operation::start(
        "allocation_release",
        "/v1/projects/{project}/allocations/{allocation}/release",
        shape::<AllocationRelease>(),
        shape::<Started>(),
    )
    .needs("allocation.release")
    .summary("Give an allocation back")
    .description("Destroys its place, verifies that it is gone, wipes what it held, verifies that it is wiped, and only then frees it. Whatever else is under way on it is superseded. With `cascade` the members of instances in it are removed first, which needs `member.remove` too, and with `force` `member.force_remove`."),
    Operation::start(
        "allocation_restart",
        "/v1/projects/{project}/allocations/{allocation}/restart",
        shape::<AllocationRestart>(),
        shape::<Started>(),
    )
    .needs("allocation.restart")
    .summary("Make an allocation's place anew, on the same node")
    .description("Stops every cell in it, destroys the place, makes it anew with a higher incarnation, and starts the cells again, each with a new incarnation and with its state directories. Members are drained first and join again, which needs `member.recover` too."),
    Operation::start(
        "allocation_resize",
        "/v1/projects/{project}/allocations/{allocation}/resize",
        shape::<AllocationResize>(),
        shape::<Started>(),
    )
    .needs("allocation.resize")
    .summary("Change the size of an allocation, on the same node")
    .description("CPUs and memory change while its cells run; memory is not made smaller than what they use. A change of its GPUs needs `restart` where it holds cells."),
    Operation::act(
        "allocation_attest",
        "/v1/projects/{project}/allocations/{allocation}/attest",
        shape::<AllocationAttest>(),
        shape::<Witness>(),
    )
    .needs("allocation.attest")
    .summary("Give an operator's word that nothing of an allocation is left")
    .description("Only while its node is unreachable and its release, or the undo of its making, is parked or waits. Its slots stay quarantined until the node is back and was seen to be clean, and it is shown as attested for ever."),
];
