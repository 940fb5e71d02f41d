//! Operations: durable work, as everybody sees it. (`operation` is the contract's own word for an endpoint's description.)

use jiff::Timestamp;
use muster_ids::{NodeId, OperationId, ProjectId, TaskId, TenantId, WitnessId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::Capacity;
use crate::shape::{Object, page};
use crate::{Operation as Endpoint, shape};

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// It is written down and waits for its turn.
    Accepted,
    /// A step is under way.
    Running,
    /// Its effects are there as far as anybody knows, and are being witnessed.
    Verifying,
    /// What it did is being undone.
    Compensating,
    /// It cannot go on by itself: `parked` says why, who can unblock it and when it escalates.
    Parked,
    /// Done, and witnessed.
    Succeeded,
    /// Done in part, and somebody accepted that.
    Partial,
    /// It had no effect, or its effect was undone and that was witnessed.
    Failed,
    /// The same, on request.
    Cancelled,
    /// A newer intent took over, with everything it had done.
    Superseded,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Its turn has not come.
    Pending,
    /// It is under way.
    Running,
    /// It is done.
    Done,
    /// It surely did not happen.
    Failed,
    /// It is being undone.
    Undoing,
    /// It was undone.
    Undone,
    /// There was nothing to do.
    Skipped,
}

/// One step.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// What it does.
    pub does: String,
    /// Whether it collects evidence.
    pub verifies: bool,
    /// Whether it can be undone.
    pub has_undo: bool,
    /// What it is.
    pub state: StepState,
    /// How often it was looked at.
    pub attempts: u32,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Timestamp>,
    /// What it says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// The evidence; the witness itself stands in `witnesses` where one operation is shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub witness_id: Option<WitnessId>,
}

/// What one part of a bulk operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// It waits.
    Pending,
    /// It is being worked on.
    Running,
    /// Its operation is parked: somebody has to decide how that goes on.
    Parked,
    /// It is done.
    Succeeded,
    /// It is not, and will not be.
    Failed,
}

/// One part of a bulk operation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Item {
    /// The thing.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub state: ItemState,
    /// The operation that works on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation_id: Option<OperationId>,
    /// What it says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

/// What can be decided about a parked operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unblock {
    /// Try the step again.
    Retry,
    /// Undo what was done.
    Compensate,
    /// Take what was done as the result.
    AcceptPartial,
    /// Give up. What cannot be verified stays quarantined, and an operator's statement stands in for the evidence.
    Abandon,
}

/// Why an operation cannot go on, and who can change that.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Parked {
    /// Why.
    pub reason: String,
    /// Who can unblock it: `tenant` or `operator`.
    pub unblock_by: String,
    /// With what.
    pub choices: Vec<Unblock>,
    /// Since when.
    pub since: Timestamp,
    /// When operators are told that it is overdue.
    pub escalates_at: Timestamp,
}

/// A blocked child operation, without which its parent cannot continue.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BlockedChild {
    /// The child's id, for `operation_unblock`.
    pub operation_id: OperationId,
    /// `noun.verb`.
    pub kind: String,
    /// What the child works on: `allocation`, `cell`, `instance`, `member` or `node`.
    pub subject_kind: String,
    /// Name of what the child works on.
    pub subject_name: String,
    /// Why the child is blocked, and the actions that unblock it.
    pub parked: Parked,
}

/// How we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WitnessKind {
    /// The platform collected the evidence itself.
    Witnessed,
    /// An operator stands in for evidence that cannot be had.
    Attested,
    /// The checks could not run: the node's agent proved that the cell is dead. Only for `drained` and `removed`.
    Lost,
}

/// Evidence.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Witness {
    /// Its id.
    pub id: WitnessId,
    /// What it is evidence for: `active`, `gone`, `wiped` or `retired`.
    pub transition: String,
    /// How we know.
    pub kind: WitnessKind,
    /// Which incarnation of the thing it speaks of.
    pub incarnation: i64,
    /// By whose agent it was collected.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// By which task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task_id: Option<TaskId>,
    /// Who attested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor_id: Option<String>,
    /// What was checked, and what was found.
    pub evidence: Object,
    /// When.
    pub at: Timestamp,
}

/// An operation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// `noun.verb`.
    pub kind: String,
    /// The tenant, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant_id: Option<TenantId>,
    /// The project, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub project_id: Option<ProjectId>,
    /// What it works on: `allocation` or `node`.
    pub subject_kind: String,
    /// Its id.
    pub subject_id: String,
    /// Its name.
    pub subject_name: String,
    /// Who asked: the id.
    pub actor_id: String,
    /// Who asked: the name.
    pub actor_name: String,
    /// The thread through audit, events, tasks and logs.
    pub correlation_id: String,
    /// What it is.
    pub state: OperationState,
    /// Its steps: the plan, and what became of it.
    pub steps: Vec<Step>,
    /// The parts of a bulk operation.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub items: Vec<Item>,
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting: Option<String>,
    /// Why it is parked, and who can unblock it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parked: Option<Parked>,
    /// Blocked children (and their children), present while nothing else of the operation advances; only where one operation is
    /// shown. Unblock them to let the operation continue.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub blocked_by: Vec<BlockedChild>,
    /// Why it failed: a word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The same in a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Whether somebody asked to cancel it.
    pub cancel_requested: bool,
    /// The operation it took over from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub supersedes: Option<OperationId>,
    /// The bulk operation it is a part of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_id: Option<OperationId>,
    /// When it must have ended; what has not by then is undone or parked.
    pub deadline_at: Timestamp,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finished_at: Option<Timestamp>,
    /// The evidence that its steps collected; only where one operation is shown.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub witnesses: Vec<Witness>,
    /// For `If-Match`.
    pub version: i64,
}

/// A step that would be taken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlannedStep {
    /// Its name.
    pub name: String,
    /// What it does.
    pub does: String,
    /// Whether it collects evidence.
    pub verifies: bool,
    /// Whether it can be undone.
    pub has_undo: bool,
}

/// What would become of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedAction {
    /// A member: its successor starts elsewhere, and it is removed.
    Replace,
    /// A member: it is drained and stays where it is.
    Drain,
    /// It stays, and the operation waits.
    Wait,
    /// An allocation: it is released.
    Release,
}

/// What would become of one of the things that an operation works on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlannedItem {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What would become of it.
    pub action: PlannedAction,
    /// How, or why not: the order, the resource that is short, the state that is lost.
    pub message: String,
}

/// Members of one component that an operation would add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedMembers {
    /// The component.
    pub component_key: String,
    /// How many.
    pub count: i64,
}

/// An image that an operation would have nodes pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedPull {
    /// Its repository and digest.
    pub image: String,
    /// Its size in bytes.
    pub size: i64,
}

/// What an operation would do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// `noun.verb`.
    pub kind: String,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
    /// What it touches; operations that touch the same things run one after the other.
    pub touches: Vec<String>,
    /// How much it takes, or gives back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capacity: Option<Capacity>,
    /// Whether there is room for it now; a claim is only sure once it is made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fits_now: Option<bool>,
    /// What would become of each thing that it works on, where that differs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub items: Vec<PlannedItem>,
    /// Where it does not fit now: which resource or limit is short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "needs 1 CPU; most free on one node: 0")]
    pub short: Option<String>,
    /// How many members it adds; they have no ids before they are made.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub adds: Vec<PlannedMembers>,
    /// Images of these members that no cell runs from now: a node pulls them first, unless it kept them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pulls: Vec<PlannedPull>,
    /// How long it takes as a rule, where nothing is in the way; with the time to pull the images.
    pub expected_seconds: u32,
    /// When it must have ended.
    pub deadline_at: Timestamp,
}

/// An operation was accepted, or its plan was shown.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Started {
    /// The operation; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation: Option<Operation>,
    /// What it does.
    pub plan: Plan,
}

/// Which operations to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Of this project only; operators may leave it out.
    #[schema(max_length = 200)]
    pub project: Option<String>,
    /// On this thing only: the id of an allocation or a node.
    #[schema(max_length = 200)]
    pub subject: Option<String>,
    /// In this state only.
    pub state: Option<OperationState>,
}

/// Whether to wait for a change.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationGetQuery {
    /// Wait so many seconds for it to end or to be parked before answering.
    #[schema(minimum = 0, maximum = 30)]
    pub wait_seconds: Option<u16>,
}

/// Why it should end.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationCancel {
    /// For the audit.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
}

/// How a parked operation goes on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationUnblock {
    /// One of the choices that it gives.
    pub choice: Unblock,
    /// For the audit. To `abandon` it is needed: it stands in for the evidence.
    #[schema(min_length = 1, max_length = 1000)]
    pub statement: Option<String>,
}

page! {
    /// A page of operations.
    OperationPage of Operation
}

/// The endpoints.
pub const OPERATIONS: &[Endpoint] = &[
    Endpoint::read("operation_list", "/v1/operations", shape::<OperationPage>())
        .needs("operation.list")
        .query(shape::<OperationListQuery>())
        .summary("List operations, finished and not"),
    Endpoint::read("operation_get", "/v1/operations/{operation}", shape::<Operation>())
        .needs("operation.get")
        .query(shape::<OperationGetQuery>())
        .summary("Show an operation with its steps and evidence"),
    Endpoint::act(
        "operation_cancel",
        "/v1/operations/{operation}/cancel",
        shape::<OperationCancel>(),
        shape::<Operation>(),
    )
    .needs("operation.cancel")
    .summary("Ask for the end of an operation")
    .description("What it did is undone, and that is witnessed; then it is `cancelled`. Not everything can be cancelled."),
    Endpoint::act(
        "operation_unblock",
        "/v1/operations/{operation}/unblock",
        shape::<OperationUnblock>(),
        shape::<Operation>(),
    )
    .needs("operation.unblock")
    .summary("Decide how a parked operation goes on"),
];
