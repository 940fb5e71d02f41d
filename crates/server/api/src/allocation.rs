//! Allocations: a project's claim to capacity on exactly one node.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, OperationId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::{AllocationShape, Capacity};
use crate::operation::{Started, Witness, WitnessKind};
use crate::shape::{Labels, page};
use crate::{Endpoint, shape};

pub use muster_model::allocation::AllocationState;
pub use muster_model::placement::Strategy;

/// An allocation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Allocation {
    /// Its id.
    pub id: AllocationId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project that holds it.
    pub project_id: ProjectId,
    /// Name, unique among the project's live ones.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Shape of its capacity.
    pub shape: AllocationShape,
    /// Requested capacity.
    pub capacity: Capacity,
    /// Node selection strategy.
    pub strategy: Strategy,
    /// Current state.
    pub state: AllocationState,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// Incremented each time its sandbox is created.
    pub incarnation: i64,
    /// Capacity that it currently holds on the node.
    pub held: Capacity,
    /// Reason for the failure or the block, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Suggested next step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub advice: Option<String>,
    /// Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Kind of evidence that it is active or released; absent in other states.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<WitnessKind>,
    /// Operation that last worked on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// Number of allocations ahead of it in the queue; only when a single allocation is returned, and only while it
    /// waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_position: Option<i64>,
    /// Time until which it stays in the queue.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_until: Option<Timestamp>,
    /// Time at which it is released automatically.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
    /// Whether it is protected from release.
    pub protected: bool,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// An allocation to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationCreate {
    /// Name, unique among the project's live ones.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "train-1")]
    pub name: String,
    /// Labels.
    pub labels: Option<Labels>,
    /// Shape; default: `gpu_slice`.
    pub shape: Option<AllocationShape>,
    /// GPUs; default: 0.
    #[schema(minimum = 0, maximum = 64)]
    pub gpus: Option<i64>,
    /// Logical CPUs; default: 1.
    #[schema(minimum = 1, maximum = 4096)]
    pub cpus: Option<i64>,
    /// Memory in MiB; default: 1024.
    #[schema(minimum = 1, maximum = 67108864)]
    pub memory_mb: Option<i64>,
    /// Disk in MiB; default: 1024.
    #[schema(minimum = 0, maximum = 1073741824)]
    pub disk_mb: Option<i64>,
    /// Node selection strategy; default: `pack`.
    pub strategy: Option<Strategy>,
    /// Stay in the queue until then if it does not fit now. Without it, the request is refused at once.
    pub wait_until: Option<Timestamp>,
    /// Release it automatically at this time.
    pub expires_at: Option<Timestamp>,
    /// Refuse its release until the protection is lifted.
    pub protected: Option<bool>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Properties of an allocation that change immediately.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationUpdate {
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
    /// Release it automatically at this time.
    pub expires_at: Option<Timestamp>,
    /// Remove the expiry.
    pub never_expires: Option<bool>,
    /// Whether it is protected from release.
    pub protected: Option<bool>,
}

/// Options for recreating an allocation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationRestart {
    /// Reason, for the audit log.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
    /// Skip draining its members, and restart them even if their component loses quorum.
    pub force: Option<bool>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// Options for releasing an allocation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationRelease {
    /// Reason, for the audit log.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
    /// Remove its members first. Without it, an allocation with members is not released.
    pub cascade: Option<bool>,
    /// Do not wait for an unreachable node: leave the rest in quarantine. With `cascade`: remove members without draining, and even if their instance needs them.
    pub force: Option<bool>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// A new size.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationResize {
    /// GPUs; default: unchanged, as for the other fields.
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
    /// Restart its cells, which a change of GPUs requires: a cell keeps the GPUs it was created with.
    pub restart: Option<bool>,
    /// With `restart`: skip draining its members, and restart them even if their component loses quorum.
    pub force: Option<bool>,
    /// Return the plan without executing it.
    pub dry_run: Option<bool>,
}

/// An operator's attestation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationAttest {
    /// Statement of fact and its basis: the machine was powered off, its disks were pulled.
    #[schema(min_length = 10, max_length = 1000)]
    pub statement: String,
}

/// One state in an allocation's history.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Phase {
    /// The state.
    pub state: AllocationState,
    /// Start time.
    pub at: Timestamp,
    /// Duration in milliseconds; up to now for the current state, absent for a final one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub milliseconds: Option<i64>,
    /// The operation that caused it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// Reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// History of an allocation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// The states, oldest first.
    pub phases: Vec<Phase>,
    /// The evidence, oldest first.
    pub witnesses: Vec<Witness>,
}

/// Filters for listing allocations.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only those in this state.
    pub state: Option<AllocationState>,
}

page! {
    /// A page of allocations.
    AllocationPage of Allocation
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::start(
        "allocation_create",
        "/v1/projects/{project}/allocations",
        shape::<AllocationCreate>(),
        shape::<Started>(),
    )
    .needs("allocation.create")
    .summary("Create an allocation on a node")
    .description("The operation chooses a node, claims the capacity, provisions the sandbox on the node and verifies it; only then is the allocation active."),
    Endpoint::read("allocation_list", "/v1/projects/{project}/allocations", shape::<AllocationPage>())
        .needs("allocation.list")
        .query(shape::<AllocationListQuery>())
        .summary("List a project's allocations"),
    Endpoint::read("allocation_get", "/v1/projects/{project}/allocations/{allocation}", shape::<Allocation>())
        .needs("allocation.get")
        .summary("Show an allocation"),
    Endpoint::read(
        "allocation_timeline",
        "/v1/projects/{project}/allocations/{allocation}/timeline",
        shape::<Timeline>(),
    )
    .needs("allocation.timeline")
    .summary("Show the history of an allocation, with durations and evidence"),
    Endpoint::update(
        "allocation_update",
        "/v1/projects/{project}/allocations/{allocation}",
        shape::<AllocationUpdate>(),
        shape::<Allocation>(),
    )
    .needs("allocation.update")
    .summary("Change an allocation's labels, expiry or protection"),
    Endpoint::start(
        "allocation_release",
        "/v1/projects/{project}/allocations/{allocation}/release",
        shape::<AllocationRelease>(),
        shape::<Started>(),
    )
    .needs("allocation.release")
    .summary("Release an allocation")
    .description("Destroys its sandbox, verifies that it is gone, wipes its devices and disk, verifies the wipe, and only then frees them. Supersedes every operation in progress on it. With `cascade` the members of instances in it are removed first, which also needs `member.remove`, and with `force` `member.force_remove`. With `force` it ends `partial`, reason `quarantined`, if the node is unreachable; the capacity stays claimed until the node returns or an operator attests."),
    Endpoint::start(
        "allocation_restart",
        "/v1/projects/{project}/allocations/{allocation}/restart",
        shape::<AllocationRestart>(),
        shape::<Started>(),
    )
    .needs("allocation.restart")
    .summary("Restart an allocation: recreate its sandbox on the same node")
    .description("Stops every cell in it, destroys the sandbox, recreates it with a higher incarnation, and starts the cells again, each with a new incarnation and with its state directories. Members are drained first and join again, which also needs `member.recover`."),
    Endpoint::start(
        "allocation_resize",
        "/v1/projects/{project}/allocations/{allocation}/resize",
        shape::<AllocationResize>(),
        shape::<Started>(),
    )
    .needs("allocation.resize")
    .summary("Resize an allocation on the same node")
    .description("CPUs and memory change while its cells run; memory cannot shrink below their use. A change of its GPUs needs `restart` if it has cells."),
    Endpoint::act(
        "allocation_attest",
        "/v1/projects/{project}/allocations/{allocation}/attest",
        shape::<AllocationAttest>(),
        shape::<Witness>(),
    )
    .needs("allocation.attest")
    .summary("Attest that nothing of an allocation is left")
    .description("Only while its node is unreachable and its release, or the rollback of its creation, is blocked or waits. Its slots stay quarantined until the node is reachable and verified to be clean, and it is shown as attested forever."),
];
