//! Accepts an operation: its plan is made first and can be shown without executing it.

use jiff::Timestamp;
use muster_ids::OperationId;
use muster_model::Scope;
use muster_model::audit::Actor;
use muster_model::event::Timeline;
use muster_model::operation::{Operation, OperationState, StepRecord};
use muster_model::operation_input::OperationInput;
use uuid::Uuid;

use crate::Definition;

/// Parameters of a new operation.
#[derive(Debug, Clone)]
pub struct OperationRequest {
    /// Id of the operation.
    pub id: OperationId,
    /// Tenant and project.
    pub scope: Scope,
    /// Kind of the subject.
    pub subject_kind: &'static str,
    /// Id of the subject.
    pub subject_id: Uuid,
    /// Name of the subject.
    pub subject_name: String,
    /// The timelines that show its events.
    pub timeline: Timeline,
    /// Exclusive locks, the subject included.
    pub exclusive_locks: Vec<Uuid>,
    /// Shared locks.
    pub shared_locks: Vec<Uuid>,
    /// The requester.
    pub asked_by: Actor,
    /// Correlation id.
    pub correlation_id: String,
    /// Input of the operation.
    pub input: OperationInput,
    /// Deadline of the operation.
    pub deadline_at: Timestamp,
    /// Parent operation, if it is a child.
    pub parent_id: Option<OperationId>,
    /// Current time.
    pub now: Timestamp,
}

/// Builds the accepted operation, with its steps planned.
pub fn accept(definition: &Definition, request: OperationRequest) -> Operation {
    Operation {
        id: request.id,
        kind: definition.kind.to_owned(),
        tenant_id: request.scope.tenant(),
        project_id: request.scope.project(),
        subject_kind: request.subject_kind.to_owned(),
        subject_id: request.subject_id,
        subject_name: request.subject_name,
        timeline: request.timeline,
        asked_by: request.asked_by,
        correlation_id: request.correlation_id,
        state: OperationState::Accepted,
        input: request.input,
        exclusive_locks: request.exclusive_locks,
        shared_locks: request.shared_locks,
        steps: definition.steps.iter().map(|step| StepRecord::pending(step.name)).collect(),
        items: Vec::new(),
        waiting: None,
        blocked: None,
        reason: None,
        message: None,
        cancel_requested: false,
        supersedes: None,
        parent_id: request.parent_id,
        due_at: request.now,
        deadline_at: request.deadline_at,
        generation: 0,
        wakes: 0,
        created_at: request.now,
        updated_at: request.now,
        finished_at: None,
        version: 1,
    }
}
