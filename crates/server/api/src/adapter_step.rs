//! Adapter API: steps to lease and carry out, and tasks run in cells under such a lease.

use jiff::Timestamp;
use muster_ids::{
    AdapterStepId, AllocationId, AppId, AppVersionId, InstanceId, MemberId, OperationId, ProjectId, TaskId,
};
use muster_wire::act::{Act, CellCommand, CellFiles, CellProbe, CellService, CellTarget, OwnedAllocation};
use muster_wire::task::{CommandOrder, FilesOrder, ProbeOrder, Ran, ServiceOrder};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::instance::Health;
use crate::member::MemberState;
use crate::shape::{Object, page};
use crate::{Endpoint, shape};

pub use muster_model::adapter::{AdapterStepState, AdapterVerb};

/// Version of the adapter contract that this platform supports.
pub const CONTRACT: i64 = 1;

/// A step that an adapter carries out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AdapterStep {
    /// Its id.
    pub id: AdapterStepId,
    /// The project.
    pub project_id: ProjectId,
    /// The app.
    pub app_id: AppId,
    /// The instance.
    pub instance_id: InstanceId,
    /// The member; absent for a reconciliation of the whole instance.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member_id: Option<MemberId>,
    /// Incarnation of that member.
    pub incarnation: i64,
    /// The operation it belongs to; absent for a scheduled reconciliation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// The verb.
    pub verb: AdapterVerb,
    /// Input of the verb.
    pub input: Object,
    /// Current state.
    pub state: AdapterStepState,
    /// Fencing token: incremented with each new lease; every call on the step must carry it.
    pub generation: i64,
    /// Name of the adapter that holds the lease.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub holder: Option<String>,
    /// Expiry of the lease.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leased_until: Option<Timestamp>,
    /// Number of times it was leased.
    pub attempts: i64,
    /// Last message from the adapter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Progress in percent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub percent: Option<i64>,
    /// Failure reason, defined by the adapter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Correlation id.
    pub correlation_id: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time after which the step is abandoned.
    pub expires_at: Timestamp,
    /// Member reports that were rejected; only in the response to `complete`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub refused_reports: Vec<RefusedReport>,
}

/// Reason a member report was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportRefusal {
    /// The instance has no such member, or the member is removed.
    UnknownMember,
    /// The member's cell was recreated: the report is about another incarnation.
    StaleIncarnation,
}

/// A rejected member report. It has no effect; the other reports of the same request do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedReport {
    /// Member named in the report.
    pub member_id: MemberId,
    /// Incarnation named in the report.
    pub incarnation: i64,
    /// Reason for the rejection.
    pub reason: ReportRefusal,
}

/// An instance as an adapter needs it, taken at the time of the lease.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// The instance.
    pub instance_id: InstanceId,
    /// Its name.
    pub instance: String,
    /// The app's slug.
    pub app: String,
    /// Release that it should run.
    pub app_version_id: AppVersionId,
    /// Name of that release.
    pub app_version: String,
    /// Its configuration.
    pub config: Object,
    /// Manifest of the release.
    pub manifest: Object,
    /// Its members, except removed ones.
    pub members: Vec<SnapshotMember>,
    /// Time a member last left without witnessed evidence: it was fenced with its node, or an operator attested its
    /// removal. Anything shared with the members before that time may have leaked. Absent if this never happened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unwitnessed_at: Option<Timestamp>,
}

/// A member, as an adapter needs it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SnapshotMember {
    /// Its id.
    pub id: MemberId,
    /// Its component.
    pub component_key: String,
    /// Name and host name.
    pub name: String,
    /// Current state.
    pub state: MemberState,
    /// Current health.
    pub health: Health,
    /// Incremented each time its cell is created.
    pub incarnation: i64,
    /// Its address in the instance's network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Whether its node is unreachable.
    pub unreachable: bool,
    /// Whether it was fenced because of that: its network dropped it, and its processes count as lost.
    #[serde(default)]
    pub fenced: bool,
    /// Its allocation; members that share one are on the same node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocation_id: Option<AllocationId>,
    /// Release that actually runs in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub app_version_id: Option<AppVersionId>,
    /// GPUs.
    pub gpus: i64,
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// Detail last reported by the adapter.
    pub adapter_detail: Object,
}

/// A step with everything needed to carry it out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LeasedStep {
    /// The step.
    pub step: AdapterStep,
    /// The instance.
    pub snapshot: Snapshot,
}

/// The adapter that requests work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterIs {
    /// Its name, unique per process.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Its version.
    #[schema(min_length = 1, max_length = 100)]
    pub version: String,
    /// Contract version that it implements.
    #[schema(minimum = 1, maximum = 1000)]
    pub contract: i64,
}

/// A request for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepLease {
    /// The adapter.
    pub adapter: AdapterIs,
    /// Maximum number of steps; default: 16.
    #[schema(minimum = 1, maximum = 64)]
    pub most: Option<i64>,
    /// Seconds to wait for the first step; default: do not wait.
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<u64>,
    /// Lease duration without a heartbeat; default: 30 seconds.
    #[schema(minimum = 5, maximum = 600)]
    pub lease_seconds: Option<i64>,
}

/// Leased steps.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Leased {
    /// The steps; empty if there was no work within the wait.
    pub steps: Vec<LeasedStep>,
}

/// A heartbeat that extends the lease.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepHeartbeat {
    /// Generation of the lease.
    pub generation: i64,
    /// New lease duration, from now; default: 30 seconds.
    #[schema(minimum = 5, maximum = 600)]
    pub lease_seconds: Option<i64>,
}

/// Progress on a step.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepProgress {
    /// Generation of the lease.
    pub generation: i64,
    /// Progress in percent.
    #[schema(minimum = 0, maximum = 100)]
    pub percent: Option<i64>,
    /// Current activity, for people.
    #[schema(max_length = 1000)]
    pub message: Option<String>,
    /// Free-form detail on the member; replaces the previous one.
    pub adapter_detail: Option<Object>,
    /// New lease duration, from now, since progress also counts as a heartbeat; default: 30 seconds.
    #[schema(minimum = 5, maximum = 600)]
    pub lease_seconds: Option<i64>,
}

/// An adapter's findings on a member.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberReport {
    /// The member.
    pub member_id: MemberId,
    /// Its incarnation; a report on any other incarnation is rejected.
    pub incarnation: i64,
    /// Current health.
    pub health: Health,
    /// Explanation.
    #[schema(max_length = 1000)]
    pub message: Option<String>,
    /// Time at which its current work is expected to end: now or earlier if it is idle, absent if unknown. Scaling down
    /// removes the members that become free first. A report without it clears the previous value.
    pub free_at: Option<Timestamp>,
    /// Free-form detail on the member; replaces the previous one.
    pub adapter_detail: Option<Object>,
}

/// Completion of a step. The platform verifies the result itself.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepComplete {
    /// Generation of the lease.
    pub generation: i64,
    /// Summary, for people.
    #[schema(max_length = 1000)]
    pub message: Option<String>,
    /// Free-form detail on the member; replaces the previous one.
    pub adapter_detail: Option<Object>,
    /// Member reports, after a reconciliation.
    #[schema(max_items = 10_000)]
    pub members: Option<Vec<MemberReport>>,
    /// The adapter's name for the topology.
    #[schema(max_length = 100)]
    pub topology_mode: Option<String>,
    /// Seconds until the next reconciliation; default: the manifest's interval.
    #[schema(minimum = 1, maximum = 86400)]
    pub reconcile_after_seconds: Option<i64>,
}

/// Failure of a step.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepFail {
    /// Generation of the lease.
    pub generation: i64,
    /// Failure reason, defined by the adapter.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,62}$")]
    pub reason: String,
    /// The same in a sentence.
    #[schema(min_length = 1, max_length = 1000)]
    pub message: String,
    /// Seconds after which to retry: the step is offered again instead of failing.
    pub retry_after_seconds: Option<i64>,
    /// Free-form detail on the member; replaces the previous one.
    pub adapter_detail: Option<Object>,
}

/// Effect of a task on the cell, as declared by the adapter. It decides which tasks a reconciliation of the whole
/// instance may run beside steps of its members: a reconciliation works from an older snapshot, and its repair could undo
/// a drain that began since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskEffect {
    /// Reads only.
    Reads,
    /// Modifies something. Under a reconciliation it is refused with `member_step_running` while a member's step is open,
    /// or after one ended since the reconciliation was offered.
    Changes,
    /// Modifies something, and is safe beside steps of members.
    Concurrent,
}

/// Action in or beside an existing cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CellTask {
    /// Files to write, and paths to remove.
    Files(FilesOrder),
    /// A service to start or to stop.
    Service(ServiceOrder),
    /// Command to run to completion.
    Command(CommandOrder),
    /// Check to run beside the cell.
    Probe(ProbeOrder),
}

impl CellTask {
    /// Returns the act of a node that carries it out in a cell.
    pub fn into_act(self, allocation: OwnedAllocation, cell: CellTarget) -> Act {
        match self {
            Self::Files(files) => Act::CellFiles(CellFiles { allocation, cell, files }),
            Self::Service(service) => Act::CellService(CellService { allocation, cell, service }),
            Self::Command(command) => Act::CellCommand(CellCommand { allocation, cell, command }),
            Self::Probe(probe) => Act::CellProbe(CellProbe { allocation, cell, probe }),
        }
    }

    /// Returns the task that an act carries out, and its cell; none for other acts.
    pub fn from_act(act: Act) -> Option<(CellTarget, Self)> {
        Some(match act {
            Act::CellFiles(act) => (act.cell, Self::Files(act.files)),
            Act::CellService(act) => (act.cell, Self::Service(act.service)),
            Act::CellCommand(act) => (act.cell, Self::Command(act.command)),
            Act::CellProbe(act) => (act.cell, Self::Probe(act.probe)),
            _ => return None,
        })
    }
}

/// A task to run in a member's cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterTaskCreate {
    /// Generation of the lease.
    pub generation: i64,
    /// Idempotency key: repeating the request under the same step returns the same task. Under a later lease the task
    /// runs again if another task may have undone it since.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    pub key: String,
    /// The member with the cell that runs it, by id; must belong to the same instance.
    pub member_id: MemberId,
    /// The action.
    pub act: CellTask,
    /// Effect on the cell; default: `reads` for a probe, `changes` otherwise.
    pub effect: Option<TaskEffect>,
    /// Seconds to wait for it to end; default: do not wait.
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<u64>,
}

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterTaskState {
    /// Waiting for the node.
    Queued,
    /// Delivered to the node.
    Delivered,
    /// Running on the node.
    Running,
    /// Completed.
    Done,
    /// Not done, for certain.
    Failed,
    /// No result in time: it may or may not have run.
    Expired,
}

/// Reason a task failed, from a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterTaskReason {
    /// The cell's first process exited, and all others with it. No task can succeed in this incarnation: do not retry.
    CellDead,
    /// A secret was unavailable.
    SecretUnavailable,
    /// The cell's image does not match its digest, so no check can use it.
    ImageDamaged,
    /// The node refused it for another reason, given in the message.
    Refused,
}

/// A task in a member's cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AdapterTask {
    /// Its id.
    pub id: TaskId,
    /// Its idempotency key.
    pub key: String,
    /// Current state.
    pub state: AdapterTaskState,
    /// Failure reason; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<AdapterTaskReason>,
    /// The node's message, above all on failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Result of the command that was run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ran: Option<Ran>,
    /// Creation time.
    pub queued_at: Timestamp,
    /// End time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finished_at: Option<Timestamp>,
}

/// Long-poll options.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterTaskQuery {
    /// Seconds to wait for it to end; default: do not wait.
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<u64>,
}

/// Filters for listing steps.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those of this instance, by id or name.
    #[schema(max_length = 100)]
    pub instance: Option<String>,
    /// Only those in this state.
    pub state: Option<AdapterStepState>,
}

page! {
    /// A page of adapter steps.
    AdapterStepPage of AdapterStep
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::machine(
        "adapter_step_lease",
        "/v1/projects/{project}/adapter-steps/lease",
        shape::<AdapterStepLease>(),
        shape::<Leased>(),
    )
    .needs("adapter_step.lease")
    .summary("Lease adapter steps of this account's instances")
    .description(
        "Waits for the first of them. A step whose lease lapsed is offered again, with a higher generation.",
    ),
    Endpoint::read("adapter_step_list", "/v1/projects/{project}/adapter-steps", shape::<AdapterStepPage>())
        .needs("adapter_step.list")
        .query(shape::<AdapterStepListQuery>())
        .summary("List adapter steps with their holders"),
    Endpoint::read(
        "adapter_step_get",
        "/v1/projects/{project}/adapter-steps/{adapter_step}",
        shape::<LeasedStep>(),
    )
    .needs("adapter_step.get")
    .summary("Show an adapter step with the current state of its instance"),
    Endpoint::machine(
        "adapter_step_heartbeat",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/heartbeat",
        shape::<AdapterStepHeartbeat>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.heartbeat")
    .summary("Extend a lease"),
    Endpoint::machine(
        "adapter_step_progress",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/progress",
        shape::<AdapterStepProgress>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.progress")
    .summary("Report the progress of a step"),
    Endpoint::machine(
        "adapter_step_complete",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/complete",
        shape::<AdapterStepComplete>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.complete")
    .summary("Complete a step")
    .description("The platform then verifies it: a state is reached by evidence, not by this report."),
    Endpoint::machine(
        "adapter_step_fail",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/fail",
        shape::<AdapterStepFail>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.fail")
    .summary("Fail a step"),
    Endpoint::machine(
        "adapter_task_create",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/tasks",
        shape::<AdapterTaskCreate>(),
        shape::<AdapterTask>(),
    )
    .needs("adapter_task.create")
    .summary("Create a task in the cell of a member of the step's instance"),
    Endpoint::read(
        "adapter_task_get",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/tasks/{task}",
        shape::<AdapterTask>(),
    )
    .needs("adapter_task.get")
    .query(shape::<AdapterTaskQuery>())
    .summary("Show the state of a task in a cell"),
];
