//! Opening an operation: its plan is made first, and can be shown without doing anything.

use jiff::Timestamp;
use muster_ids::OperationId;
use muster_model::Scope;
use muster_model::operation::{AskedBy, Operation, OperationState, StepRecord};
use serde_json::Value;
use uuid::Uuid;

use crate::Definition;

/// What is needed to open an operation.
#[derive(Debug, Clone)]
pub struct Open {
    /// Its id.
    pub id: OperationId,
    /// Where it belongs.
    pub scope: Scope,
    /// What it works on.
    pub subject_kind: &'static str,
    /// Its id.
    pub subject_id: Uuid,
    /// Its name.
    pub subject_name: String,
    /// Everything it touches, the subject included.
    pub touches: Vec<Uuid>,
    /// What it touches only in part, beside others that do the same.
    pub shares: Vec<Uuid>,
    /// Who asks.
    pub asked_by: AskedBy,
    /// The thread.
    pub correlation_id: String,
    /// What is asked for.
    pub input: Value,
    /// When it must have ended.
    pub deadline_at: Timestamp,
    /// The bulk operation it is a part of.
    pub parent_id: Option<OperationId>,
    /// Now.
    pub now: Timestamp,
}

/// The operation as it is accepted, with its steps planned.
pub fn open(definition: &Definition, open: Open) -> Operation {
    Operation {
        id: open.id,
        kind: definition.kind.to_owned(),
        tenant_id: open.scope.tenant(),
        project_id: open.scope.project(),
        subject_kind: open.subject_kind.to_owned(),
        subject_id: open.subject_id,
        subject_name: open.subject_name,
        asked_by: open.asked_by,
        correlation_id: open.correlation_id,
        state: OperationState::Accepted,
        input: open.input,
        touches: open.touches,
        shares: open.shares,
        steps: definition.steps.iter().map(|step| StepRecord::pending(step.name)).collect(),
        items: Vec::new(),
        waiting: None,
        parked: None,
        reason: None,
        message: None,
        cancel_requested: false,
        supersedes: None,
        parent_id: open.parent_id,
        due_at: open.now,
        deadline_at: open.deadline_at,
        generation: 0,
        wakes: 0,
        created_at: open.now,
        updated_at: open.now,
        finished_at: None,
        version: 1,
    }
}
