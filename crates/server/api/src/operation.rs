//! Operations: durable work.

use jiff::Timestamp;
use muster_ids::{NodeId, OperationId, ProjectId, TaskId, TenantId, WitnessId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::capacity::Capacity;
use crate::shape::{Object, page};
use crate::{Endpoint, shape};

pub use muster_model::operation::{Item, ItemState, OperationState, ResolveAction, StepState};
pub use muster_model::witness::WitnessKind;

/// One step.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Description.
    pub does: String,
    /// Whether it collects evidence.
    pub verifies: bool,
    /// Whether it can be rolled back.
    pub has_undo: bool,
    /// Current state.
    pub state: StepState,
    /// Number of evaluations.
    pub attempts: u32,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<Timestamp>,
    /// End time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Timestamp>,
    /// Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// The evidence; the witness is in `witnesses` when a single operation is returned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub witness_id: Option<WitnessId>,
}

/// Details of a block.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Blocked {
    /// Reason.
    pub reason: String,
    /// Party that can unblock it: `tenant` or `operator`.
    pub resolvable_by: String,
    /// Available actions.
    pub actions: Vec<ResolveAction>,
    /// Time at which it was blocked.
    pub since: Timestamp,
    /// Time at which it is escalated to operators as overdue.
    pub escalates_at: Timestamp,
}

/// A blocked child operation, without which its parent cannot continue.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BlockedChild {
    /// The child's id, for `operation_resolve`.
    pub operation_id: OperationId,
    /// `noun.verb`.
    pub kind: String,
    /// Kind of the child's subject: `allocation`, `cell`, `instance`, `member` or `node`.
    pub subject_kind: String,
    /// Name of what the child works on.
    pub subject_name: String,
    /// Reason for the block, and the actions that resolve it.
    pub blocked: Blocked,
}

/// Evidence for a transition.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Witness {
    /// Its id.
    pub id: WitnessId,
    /// Transition that it is evidence for: `active`, `gone`, `wiped` or `retired`.
    pub transition: String,
    /// Kind of evidence.
    pub kind: WitnessKind,
    /// Incarnation of the resource that it applies to.
    pub incarnation: i64,
    /// Node with the agent that collected it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_id: Option<NodeId>,
    /// Task that collected it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task_id: Option<TaskId>,
    /// Operator that attested it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor_id: Option<String>,
    /// Checks and their results.
    pub evidence: Object,
    /// Time.
    pub at: Timestamp,
}

/// An operation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// `noun.verb`.
    pub kind: String,
    /// The tenant, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant_id: Option<TenantId>,
    /// The project, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub project_id: Option<ProjectId>,
    /// Kind of its subject, such as `allocation` or `node`.
    pub subject_kind: String,
    /// Its id.
    pub subject_id: String,
    /// Its name.
    pub subject_name: String,
    /// Id of the requesting actor.
    pub actor_id: String,
    /// Name of the requesting actor.
    pub actor_name: String,
    /// Correlation id, shared with audit, events, tasks and logs.
    pub correlation_id: String,
    /// Current state.
    pub state: OperationState,
    /// Its steps: the plan and its progress.
    pub steps: Vec<Step>,
    /// Items of a bulk operation.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub items: Vec<Item>,
    /// The reason it waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting: Option<String>,
    /// Reason it is blocked, and the party that can resolve it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocked: Option<Blocked>,
    /// Blocked children, at any depth, while they are all that keeps the operation from advancing; only when a single
    /// operation is returned. Resolve them so that it continues.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub blocked_by: Vec<BlockedChild>,
    /// Failure reason, from a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The same in a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// The operation it superseded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub supersedes: Option<OperationId>,
    /// The parent operation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_id: Option<OperationId>,
    /// Deadline; an operation that has not ended by then is rolled back or blocked.
    pub deadline_at: Timestamp,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// End time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finished_at: Option<Timestamp>,
    /// Evidence collected by its steps; only when a single operation is returned.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub witnesses: Vec<Witness>,
    /// Version for `If-Match`.
    pub version: i64,
}

/// A planned step.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlannedStep {
    /// Its name.
    pub name: String,
    /// Description.
    pub does: String,
    /// Whether it collects evidence.
    pub verifies: bool,
    /// Whether it can be rolled back.
    pub has_undo: bool,
}

/// Planned action on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedAction {
    /// A member: start its successor elsewhere, then remove it.
    Replace,
    /// A member: drain it in place.
    Drain,
    /// Keep it; the operation waits.
    Wait,
    /// An allocation: release it.
    Release,
}

/// A resource that an operation would act on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlannedItem {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Planned action.
    pub action: PlannedAction,
    /// Explanation: the order, the short resource, the state that is lost.
    pub message: String,
}

/// Members of a component that an operation would add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedMembers {
    /// The component.
    pub component_key: String,
    /// Number of members.
    pub count: i64,
}

/// An image that nodes would have to pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedPull {
    /// Its repository and digest.
    pub image: String,
    /// Its size in bytes.
    pub size: i64,
}

/// The plan of an operation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// `noun.verb`.
    pub kind: String,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
    /// Resources that it locks; operations on the same resources run one after the other.
    pub locks: Vec<String>,
    /// Release that it starts members from. A request that names none gets the default, which a canary may change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "1.2.0")]
    pub app_version: Option<String>,
    /// Capacity that it takes or releases.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capacity: Option<Capacity>,
    /// Whether it fits now; not a reservation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fits_now: Option<bool>,
    /// Planned action on each resource, where they differ.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub items: Vec<PlannedItem>,
    /// Resource or limit that is short, if it does not fit now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "needs 1 CPU; most free on one node: 0")]
    pub short: Option<String>,
    /// Number of members it adds; they have no ids yet.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub adds: Vec<PlannedMembers>,
    /// Images of these members that no cell runs now: a node pulls them first, unless cached.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pulls: Vec<PlannedPull>,
    /// Typical duration without obstacles, including image pulls.
    pub expected_seconds: u32,
    /// Deadline.
    pub deadline_at: Timestamp,
}

/// An accepted operation, or its plan.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Started {
    /// The operation; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operation: Option<Operation>,
    /// Its plan.
    pub plan: Plan,
}

/// Filters for listing operations.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those of this project; optional for operators.
    #[schema(max_length = 200)]
    pub project: Option<String>,
    /// Only those on this resource: id of an allocation or a node.
    #[schema(max_length = 200)]
    pub subject: Option<String>,
    /// Only those in this state.
    pub state: Option<OperationState>,
}

/// Long-poll options.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationGetQuery {
    /// Wait up to this many seconds for it to end or to be blocked.
    #[schema(minimum = 0, maximum = 30)]
    pub wait_seconds: Option<u16>,
}

/// A cancellation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationCancel {
    /// Reason, for the audit log.
    #[schema(max_length = 500)]
    pub reason: Option<String>,
}

/// A decision on a blocked operation.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationResolve {
    /// One of its available actions.
    pub action: ResolveAction,
    /// Statement for the audit log. Required to `abandon`: it replaces the evidence.
    #[schema(min_length = 1, max_length = 1000)]
    pub statement: Option<String>,
}

page! {
    /// A page of operations.
    OperationPage of Operation
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("operation_list", "/v1/operations", shape::<OperationPage>())
        .needs("operation.list")
        .query(shape::<OperationListQuery>())
        .summary("List operations, in progress and finished"),
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
    .summary("Cancel an operation")
    .description("Its effects are rolled back and the rollback is witnessed; then it is `cancelled`. Not every operation can be cancelled."),
    Endpoint::act(
        "operation_resolve",
        "/v1/operations/{operation}/resolve",
        shape::<OperationResolve>(),
        shape::<Operation>(),
    )
    .needs("operation.resolve")
    .summary("Resolve a blocked operation with one of its actions"),
];
