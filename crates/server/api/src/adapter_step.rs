//! The adapter's side: steps to lease and carry out, and what is done in cells under such a lease.

use jiff::Timestamp;
use muster_ids::{
    AdapterStepId, AllocationId, AppId, AppVersionId, InstanceId, MemberId, OperationId, ProjectId, TaskId,
};
use muster_wire::task::{CellAct, Ran};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::instance::Health;
use crate::member::MemberState;
use crate::shape::{Object, page};
use crate::{Operation, shape};

/// The version of the adapter's contract that this platform speaks.
pub const CONTRACT: i64 = 1;

/// What an adapter is asked for. Each must be safe to do again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterVerb {
    /// Take a member in.
    Join,
    /// Undo that, also where it was never finished.
    Leave,
    /// Take a member out of work.
    Drain,
    /// Put it back to work.
    Resume,
    /// Forget a member, which goes.
    Remove,
    /// Look at an instance, mend what is the adapter's to mend, and say how its members do.
    Reconcile,
}

/// What an adapter's step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterStepState {
    /// It waits for an adapter.
    Queued,
    /// An adapter works on it, as long as its lease lasts.
    Leased,
    /// The adapter says that it is done.
    Done,
    /// The adapter says that it cannot be done.
    Failed,
    /// Nobody wants it any more.
    Cancelled,
}

/// A step that an adapter carries out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AdapterStep {
    /// Its id.
    pub id: AdapterStepId,
    /// The project.
    pub project_id: ProjectId,
    /// Of which app.
    pub app_id: AppId,
    /// Of which instance.
    pub instance_id: InstanceId,
    /// Of which member; absent for a look at the whole instance.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member_id: Option<MemberId>,
    /// The incarnation of that member.
    pub incarnation: i64,
    /// For which operation; absent for a look on schedule.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// What to do.
    pub verb: AdapterVerb,
    /// What is asked for beside the verb.
    pub input: Object,
    /// What it is.
    pub state: AdapterStepState,
    /// Raised whenever its lease changes hands; everything that is said of it must carry it.
    pub generation: i64,
    /// Who has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub holder: Option<String>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leased_until: Option<Timestamp>,
    /// How often it was leased.
    pub attempts: i64,
    /// What the adapter last said of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// How far it is, of a hundred.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub percent: Option<i64>,
    /// Why it failed: the adapter's own word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The thread.
    pub correlation_id: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When nobody waits for it any more.
    pub expires_at: Timestamp,
    /// The reports on members that were not taken, in the answer to `complete`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub refused_reports: Vec<RefusedReport>,
}

/// Why a report on a member was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportRefusal {
    /// The instance has no such member, or it is removed.
    UnknownMember,
    /// The member's cell was made anew: the report is about another incarnation.
    StaleIncarnation,
}

/// A report on a member that was not taken. It changed nothing; the others of the same look did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedReport {
    /// The member that it named.
    pub member_id: MemberId,
    /// The incarnation that it named.
    pub incarnation: i64,
    /// Why.
    pub reason: ReportRefusal,
}

/// Everything that an adapter needs to know of an instance, at the moment of the lease.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// The instance.
    pub instance_id: InstanceId,
    /// Its name.
    pub instance: String,
    /// The app's slug.
    pub app: String,
    /// The release that it should run.
    pub app_version_id: AppVersionId,
    /// The name of that release.
    pub app_version: String,
    /// What it was configured with.
    pub config: Object,
    /// The release's manifest.
    pub manifest: Object,
    /// Its members, those that are removed not among them.
    pub members: Vec<SnapshotMember>,
    /// When a member last left without anybody having seen its end: it was cut off with its node, or an operator's word stands in
    /// for the evidence. What was shared with the members before that may be in other hands. Absent if that never happened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unwitnessed_at: Option<Timestamp>,
}

/// A member, as an adapter needs to know it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SnapshotMember {
    /// Its id.
    pub id: MemberId,
    /// Of which component.
    pub component_key: String,
    /// Its name, and its host name.
    pub name: String,
    /// What it is.
    pub state: MemberState,
    /// How well it does.
    pub health: Health,
    /// Raised whenever its cell is made.
    pub incarnation: i64,
    /// Its address in the instance's network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Whether nobody hears from its node.
    pub unreachable: bool,
    /// Whether it was cut off because of that: the rest of its network has forgotten it, and what ran there is as good as gone.
    #[serde(default)]
    pub fenced: bool,
    /// The allocation that it is in; members that share one are on the same node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocation_id: Option<AllocationId>,
    /// The release that really runs in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub app_version_id: Option<AppVersionId>,
    /// What it holds.
    pub gpus: i64,
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// What the adapter last said of it.
    pub adapter_detail: Object,
}

/// A step with everything that is needed to carry it out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LeasedStep {
    /// The step.
    pub step: AdapterStep,
    /// The instance.
    pub snapshot: Snapshot,
}

/// Who asks for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterIs {
    /// Its own name: one process, one name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Its version.
    #[schema(min_length = 1, max_length = 100)]
    pub version: String,
    /// The version of the contract that it speaks.
    #[schema(minimum = 1, maximum = 1000)]
    pub contract: i64,
}

/// A wish for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepLease {
    /// Who asks.
    pub adapter: AdapterIs,
    /// So many steps at most; 16 if not given.
    #[schema(minimum = 1, maximum = 64)]
    pub most: Option<i64>,
    /// How long to wait for the first of them; not at all if not given.
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<u64>,
    /// How long a step is its own without a heartbeat; 30 seconds if not given.
    #[schema(minimum = 5, maximum = 600)]
    pub lease_seconds: Option<i64>,
}

/// Work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Leased {
    /// The steps; none if there was nothing to do in that time.
    pub steps: Vec<LeasedStep>,
}

/// An adapter is still at it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepHeartbeat {
    /// The generation of the lease.
    pub generation: i64,
    /// How long it is its own from now; 30 seconds if not given.
    #[schema(minimum = 5, maximum = 600)]
    pub lease_seconds: Option<i64>,
}

/// How far an adapter is.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepProgress {
    /// The generation of the lease.
    pub generation: i64,
    /// How far, of a hundred.
    #[schema(minimum = 0, maximum = 100)]
    pub percent: Option<i64>,
    /// What it is at, for people.
    #[schema(max_length = 1000)]
    pub message: Option<String>,
    /// What there is to say of the member, for people; it replaces what was said before.
    pub adapter_detail: Option<Object>,
    /// How long it is its own from now, since whoever says this is still at it; 30 seconds if not given.
    #[schema(minimum = 5, maximum = 600)]
    pub lease_seconds: Option<i64>,
}

/// What an adapter found of a member.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberReport {
    /// Which.
    pub member_id: MemberId,
    /// Which incarnation of it: what is said of another one does not count.
    pub incarnation: i64,
    /// How well it does.
    pub health: Health,
    /// Why.
    #[schema(max_length = 1000)]
    pub message: Option<String>,
    /// When what it does now is expected to be over: now or earlier if it does nothing, and nothing if that is unknown. When fewer
    /// members are wanted, those go first that are free first. A report without it takes back what was said before.
    pub free_at: Option<Timestamp>,
    /// What there is to say of it, for people; it replaces what was said before.
    pub adapter_detail: Option<Object>,
}

/// An adapter is done. The platform looks for itself before it believes that.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepComplete {
    /// The generation of the lease.
    pub generation: i64,
    /// What it did, for people.
    #[schema(max_length = 1000)]
    pub message: Option<String>,
    /// What there is to say of the member, for people; it replaces what was said before.
    pub adapter_detail: Option<Object>,
    /// How the members do, after a look at the instance.
    #[schema(max_items = 10_000)]
    pub members: Option<Vec<MemberReport>>,
    /// How the adapter calls the topology.
    #[schema(max_length = 100)]
    pub topology_mode: Option<String>,
    /// When it wants to look again, in seconds; as the manifest says, if not given.
    #[schema(minimum = 1, maximum = 86400)]
    pub reconcile_after_seconds: Option<i64>,
}

/// An adapter cannot do it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepFail {
    /// The generation of the lease.
    pub generation: i64,
    /// Why: a word of the adapter's own.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,62}$")]
    pub reason: String,
    /// The same in a sentence.
    #[schema(min_length = 1, max_length = 1000)]
    pub message: String,
    /// Whether it may work later: then the step is offered again after a while instead of failing.
    pub retry_after_seconds: Option<i64>,
    /// What there is to say of the member, for people; it replaces what was said before.
    pub adapter_detail: Option<Object>,
}

/// What a task does to a cell, by the adapter's own word. It decides what a look at the whole instance (`reconcile`) may do beside steps of
/// its members: a look has a snapshot of its own moment, and a repair by it would undo a drain that began since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskEffect {
    /// It only reads.
    Reads,
    /// It changes something. Under a look it is refused with `member_step_running` while a step of a member is open, or after one ended
    /// since the look was offered.
    Changes,
    /// It changes something, and is safe beside steps of members.
    Concurrent,
}

/// What is to be done in a member's cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterTaskCreate {
    /// The generation of the lease.
    pub generation: i64,
    /// What it is for: who asks again with the same key under the same step is told of the same task. Under a later lease it is done again
    /// if another task may have undone it since.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    pub key: String,
    /// In whose cell: a member of that very instance, by id.
    pub member_id: MemberId,
    /// What.
    pub act: CellAct,
    /// What it does to the cell; `reads` for a probe and `changes` for everything else, if not given.
    pub effect: Option<TaskEffect>,
    /// How long to wait for its end; not at all if not given.
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<u64>,
}

/// What a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterTaskState {
    /// It waits for the node.
    Queued,
    /// The node has it.
    Delivered,
    /// The node works on it.
    Running,
    /// It was done.
    Done,
    /// It surely was not done.
    Failed,
    /// Nobody heard of it in time: it may have happened.
    Expired,
}

/// Why a task failed: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterTaskReason {
    /// The first process of the cell ended, and every other with it. Nothing can be done in this incarnation any more: do not retry.
    CellDead,
    /// A secret could not be had.
    SecretUnavailable,
    /// The cell's image is not what its digest says, so nothing can be checked with it.
    ImageDamaged,
    /// The node refused it for another reason; the message says which.
    Refused,
}

/// Something that is done in a member's cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AdapterTask {
    /// Its id.
    pub id: TaskId,
    /// What it is for.
    pub key: String,
    /// What it is.
    pub state: AdapterTaskState,
    /// Why it failed; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<AdapterTaskReason>,
    /// What the node says, above all why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// How what was run ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ran: Option<Ran>,
    /// When it was asked for.
    pub queued_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finished_at: Option<Timestamp>,
}

/// How long to wait.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterTaskQuery {
    /// How long to wait for its end; not at all if not given.
    #[schema(minimum = 0, maximum = 60)]
    pub wait_seconds: Option<u64>,
}

/// Which steps to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterStepListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Of this instance only, by id or name.
    #[schema(max_length = 100)]
    pub instance: Option<String>,
    /// In this state only.
    pub state: Option<AdapterStepState>,
}

page! {
    /// A page of adapter steps.
    AdapterStepPage of AdapterStep
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::machine(
        "adapter_step_lease",
        "/v1/projects/{project}/adapter-steps/lease",
        shape::<AdapterStepLease>(),
        shape::<Leased>(),
    )
    .needs("adapter_step.lease")
    .summary("Lease steps of the instances that this account operates")
    .description("It waits for the first of them. A step whose lease lapsed is offered again, with a higher generation."),
    Operation::read("adapter_step_list", "/v1/projects/{project}/adapter-steps", shape::<AdapterStepPage>())
        .needs("adapter_step.list")
        .query(shape::<AdapterStepListQuery>())
        .summary("List adapter steps, with who holds them"),
    Operation::read(
        "adapter_step_get",
        "/v1/projects/{project}/adapter-steps/{adapter_step}",
        shape::<LeasedStep>(),
    )
    .needs("adapter_step.get")
    .summary("Show an adapter step, with the instance as it is now"),
    Operation::machine(
        "adapter_step_heartbeat",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/heartbeat",
        shape::<AdapterStepHeartbeat>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.heartbeat")
    .summary("Keep a lease"),
    Operation::machine(
        "adapter_step_progress",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/progress",
        shape::<AdapterStepProgress>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.progress")
    .summary("Say how far a step is"),
    Operation::machine(
        "adapter_step_complete",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/complete",
        shape::<AdapterStepComplete>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.complete")
    .summary("Say that a step is done")
    .description("The platform then looks for itself: a state is reached by evidence, not by this."),
    Operation::machine(
        "adapter_step_fail",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/fail",
        shape::<AdapterStepFail>(),
        shape::<AdapterStep>(),
    )
    .needs("adapter_step.fail")
    .summary("Say that a step cannot be done"),
    Operation::machine(
        "adapter_task_create",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/tasks",
        shape::<AdapterTaskCreate>(),
        shape::<AdapterTask>(),
    )
    .needs("adapter_task.create")
    .summary("Have something done in the cell of a member of that very instance"),
    Operation::read(
        "adapter_task_get",
        "/v1/projects/{project}/adapter-steps/{adapter_step}/tasks/{task}",
        shape::<AdapterTask>(),
    )
    .needs("adapter_task.get")
    .query(shape::<AdapterTaskQuery>())
    .summary("Show how something stands that is done in a cell"),
];
