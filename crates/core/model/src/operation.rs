//! Operations: durable work, its plan and its journal.

use jiff::Timestamp;
use muster_ids::{OperationId, ProjectId, TenantId, WitnessId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::Scope;
use crate::state::states;

states! {
    /// What an operation is.
    OperationState {
        /// It is written down and waits for its turn.
        Accepted = "accepted" => [Running, Compensating, Parked, Succeeded, Partial, Failed, Cancelled, Superseded];
        /// A step is under way.
        Running = "running" => [Verifying, Compensating, Parked, Succeeded, Partial, Failed, Cancelled, Superseded];
        /// Its effects are there as far as anybody knows, and are being witnessed.
        Verifying = "verifying" => [Running, Compensating, Parked, Succeeded, Partial, Failed, Superseded];
        /// What it did is being undone.
        Compensating = "compensating" => [Parked, Partial, Failed, Cancelled, Superseded];
        /// It cannot go on by itself: it says why, who can unblock it and when it escalates.
        Parked = "parked" => [Running, Verifying, Compensating, Partial, Failed, Cancelled, Superseded];
        /// Done, and witnessed.
        Succeeded = "succeeded" => [];
        /// Done in part, and somebody accepted that.
        Partial = "partial" => [];
        /// It had no effect, or its effect was undone and that was witnessed.
        Failed = "failed" => [];
        /// The same, on request.
        Cancelled = "cancelled" => [];
        /// A newer intent took over, with everything it had done.
        Superseded = "superseded" => [];
    }
}

states! {
    /// What a step is.
    StepState {
        /// Its turn has not come.
        Pending = "pending" => [Running, Done, Skipped];
        /// It is under way.
        Running = "running" => [Done, Failed, Undoing, Skipped];
        /// It is done.
        Done = "done" => [Undoing];
        /// It surely did not happen.
        Failed = "failed" => [Undoing];
        /// It is being undone.
        Undoing = "undoing" => [Undone];
        /// It was undone.
        Undone = "undone" => [];
        /// There was nothing to do.
        Skipped = "skipped" => [];
    }
}

states! {
    /// What one part of a bulk operation is.
    ItemState {
        /// It waits.
        Pending = "pending" => [Running, Parked, Succeeded, Failed];
        /// It is being worked on.
        Running = "running" => [Parked, Succeeded, Failed];
        /// Its operation is parked: somebody has to decide how that goes on.
        Parked = "parked" => [Running, Succeeded, Failed];
        /// It is done.
        Succeeded = "succeeded" => [];
        /// It is not, and will not be.
        Failed = "failed" => [];
    }
}

/// What can be done with a parked operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unblock {
    /// Try the step again.
    Retry,
    /// Undo what was done.
    Compensate,
    /// Take what was done as the result.
    AcceptPartial,
    /// Give up; what cannot be verified stays quarantined.
    Abandon,
}

impl Unblock {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Unblock::Retry => "retry",
            Unblock::Compensate => "compensate",
            Unblock::AcceptPartial => "accept_partial",
            Unblock::Abandon => "abandon",
        }
    }
}

/// One step, in the plan and in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its name; the file in `operations/src` has the same.
    pub name: String,
    /// What it is.
    pub state: StepState,
    /// How often it was tried.
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
    /// What it did, for its undo and for whoever takes over.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub output: Value,
    /// The evidence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub witness_id: Option<WitnessId>,
}

impl StepRecord {
    /// A step whose turn has not come.
    pub fn pending(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: StepState::Pending,
            attempts: 0,
            started_at: None,
            ended_at: None,
            message: None,
            output: Value::Null,
            witness_id: None,
        }
    }
}

/// One part of a bulk operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Why an operation is parked, who can unblock it, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Why.
    pub reason: String,
    /// Who can unblock it: `tenant` or `operator`.
    pub unblock_by: String,
    /// With what.
    pub choices: Vec<Unblock>,
    /// Since when.
    pub since: Timestamp,
    /// When it is told to operators as overdue.
    pub escalates_at: Timestamp,
    /// Whether that was done.
    #[serde(default)]
    pub escalated: bool,
    /// Whether nothing was refused and only its time was over: then it can go on where it is as soon as what it waits for is
    /// there.
    #[serde(default)]
    pub by_deadline: bool,
}

/// Who asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// `user`, `service_account` or `platform`.
    pub kind: String,
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
}

/// An operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// `noun.verb`.
    pub kind: String,
    /// The tenant, where there is one.
    pub tenant_id: Option<TenantId>,
    /// The project, where there is one.
    pub project_id: Option<ProjectId>,
    /// What it works on: `allocation` or `node`.
    pub subject_kind: String,
    /// Its id.
    pub subject_id: Uuid,
    /// Its name.
    pub subject_name: String,
    /// Who asked.
    pub asked_by: AskedBy,
    /// The thread.
    pub correlation_id: String,
    /// What it is.
    pub state: OperationState,
    /// What was asked for.
    pub input: Value,
    /// What it touches; disjoint operations run at once, others in order.
    pub touches: Vec<Uuid>,
    /// What it touches only in part, beside others that do the same: it waits for those who touch all of it, and they for it.
    #[serde(default)]
    pub shares: Vec<Uuid>,
    /// The steps, planned and done.
    pub steps: Vec<StepRecord>,
    /// The parts of a bulk operation.
    pub items: Vec<Item>,
    /// Why it waits.
    pub waiting: Option<String>,
    /// Why it is parked.
    pub parked: Option<Parked>,
    /// Why it failed: a word of a closed list.
    pub reason: Option<String>,
    /// The same in a sentence.
    pub message: Option<String>,
    /// Whether somebody asked to cancel it.
    pub cancel_requested: bool,
    /// The operation it took over from.
    pub supersedes: Option<OperationId>,
    /// The bulk operation it is a part of.
    pub parent_id: Option<OperationId>,
    /// When the engine looks at it next.
    pub due_at: Timestamp,
    /// When it must have ended.
    pub deadline_at: Timestamp,
    /// Raised whenever its lease changes hands.
    pub generation: i64,
    /// Raised whenever somebody wakes it.
    pub wakes: i64,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// For `If-Match`.
    pub version: i64,
}

impl Operation {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::from_columns(self.tenant_id, self.project_id)
    }

    /// The step that is under way, or comes next.
    pub fn current(&self) -> Option<usize> {
        self.steps.iter().position(|step| !matches!(step.state, StepState::Done | StepState::Skipped))
    }

    /// The record of a step.
    pub fn step(&self, name: &str) -> Option<&StepRecord> {
        self.steps.iter().find(|step| step.name == name)
    }
}
