//! Operations in the API.

mod blocked_children;
mod cancel;
mod evidence;
mod get;
mod list;
mod resolve;
mod resume_blocked;
mod submit;

pub use cancel::cancel;
pub use get::get;
pub use list::list;
pub use resolve::resolve;

pub(crate) use resume_blocked::resume_blocked;
pub(crate) use submit::{Subject, Submission, Wrote, deadline, started, submit, submit_with};
pub use submit::{item_of, superseded};

use crate::Cx;
use jiff::Timestamp;
use muster_api::operation as api;
use muster_authz::PrincipalKind;
use muster_engine::{Definition, Undo, definition};
use muster_ids::TypedId as _;
use muster_model::audit::Actor;
use muster_model::operation::{Blocked, Operation, StepRecord};
use muster_model::witness::Witness;

pub fn path(operation: &Operation) -> String {
    format!("/v1/operations/{}", operation.id)
}

/// Returns the requester, as an operation stores it.
pub(crate) fn asked_by(cx: &Cx) -> Actor {
    match &cx.actor {
        Some(actor) => Actor {
            kind: match actor.principal.kind {
                PrincipalKind::User { .. } => "user",
                PrincipalKind::ServiceAccount { .. } => "service_account",
            }
            .to_owned(),
            id: actor.principal.id(),
            name: actor.principal.name.clone(),
        },
        None => Actor::platform(""),
    }
}

/// Returns the plan of an operation of this kind.
pub(crate) fn plan(definition: &Definition, exclusive_locks: &[String], deadline_at: Timestamp) -> api::Plan {
    let step = |step: &muster_engine::Step| api::PlannedStep {
        name: step.name.to_owned(),
        does: step.does.to_owned(),
        verifies: step.verifies,
        has_undo: matches!(step.undo, Undo::Run(_)),
    };
    api::Plan {
        kind: definition.kind.to_string(),
        steps: definition.steps.iter().map(step).collect(),
        locks: exclusive_locks.to_vec(),
        app_version: None,
        capacity: None,
        fits_now: None,
        items: Vec::new(),
        short: None,
        adds: Vec::new(),
        pulls: Vec::new(),
        // A round trip to an agent takes about a second; every other step is a commit.
        expected_seconds: u32::try_from(definition.steps.len()).unwrap_or(u32::MAX),
        deadline_at,
    }
}

/// Returns the subject's id in text form.
fn subject_id(operation: &Operation) -> String {
    match operation.subject_kind.as_str() {
        "node" => muster_ids::NodeId::from_uuid(operation.subject_id).to_string(),
        "allocation" => muster_ids::AllocationId::from_uuid(operation.subject_id).to_string(),
        "cell" => muster_ids::CellId::from_uuid(operation.subject_id).to_string(),
        "member" => muster_ids::MemberId::from_uuid(operation.subject_id).to_string(),
        "instance" => muster_ids::InstanceId::from_uuid(operation.subject_id).to_string(),
        _ => operation.subject_id.to_string(),
    }
}

fn step(record: &StepRecord, definition: Option<&Definition>) -> api::Step {
    let step = definition.and_then(|definition| definition.step(&record.name));
    api::Step {
        name: record.name.clone(),
        does: step.map(|step| step.does.to_owned()).unwrap_or_default(),
        verifies: step.is_some_and(|step| step.verifies),
        has_undo: step.is_some_and(|step| matches!(step.undo, Undo::Run(_))),
        state: record.state,
        attempts: record.attempts,
        started_at: record.started_at,
        ended_at: record.ended_at,
        message: record.message.clone(),
        witness_id: record.witness_id,
    }
}

fn blocked_view(blocked: &Blocked) -> api::Blocked {
    api::Blocked {
        reason: blocked.reason.clone(),
        resolvable_by: blocked.resolvable_by.clone(),
        actions: blocked.actions.clone(),
        since: blocked.since,
        escalates_at: blocked.escalates_at,
    }
}

pub(crate) fn witness(to_operator: bool, witness: &Witness) -> api::Witness {
    api::Witness {
        id: witness.id,
        transition: witness.transition.as_str().to_owned(),
        kind: witness.kind,
        incarnation: witness.incarnation,
        node_id: witness.node_id,
        task_id: witness.task_id,
        actor_id: witness.actor_id.clone(),
        evidence: evidence::evidence(witness, to_operator),
        at: witness.at,
    }
}

/// Returns the operation's view for its reader: only operators get the nodes' paths.
pub(crate) fn view_for(to_operator: bool, operation: &Operation) -> api::Operation {
    let mut view = view(operation);
    if to_operator {
        return view;
    }
    let steps = view.steps.iter_mut().map(|step| &mut step.message);
    let items = view.items.iter_mut().map(|item| &mut item.message);
    for said in [&mut view.waiting, &mut view.message].into_iter().chain(steps).chain(items) {
        *said = said.as_deref().map(evidence::without_node_paths);
    }
    if let Some(blocked) = &mut view.blocked {
        blocked.reason = evidence::without_node_paths(&blocked.reason);
    }
    view
}

pub(crate) fn view(operation: &Operation) -> api::Operation {
    let kind = definition(operation.kind);
    api::Operation {
        id: operation.id,
        kind: operation.kind.to_string(),
        tenant_id: operation.tenant_id,
        project_id: operation.project_id,
        subject_kind: operation.subject_kind.clone(),
        subject_id: subject_id(operation),
        subject_name: operation.subject_name.clone(),
        actor_id: operation.asked_by.id.clone(),
        actor_name: operation.asked_by.name.clone(),
        correlation_id: operation.correlation_id.clone(),
        state: operation.state,
        steps: operation.steps.iter().map(|record| step(record, kind)).collect(),
        items: operation.items.clone(),
        waiting: operation.waiting.clone(),
        blocked: operation.blocked.as_ref().map(blocked_view),
        blocked_by: Vec::new(),
        reason: operation.reason.clone(),
        message: operation.message.clone(),
        cancel_requested: operation.cancel_requested,
        supersedes: operation.supersedes,
        parent_id: operation.parent_id,
        deadline_at: operation.deadline_at,
        created_at: operation.created_at,
        updated_at: operation.updated_at,
        finished_at: operation.finished_at,
        witnesses: Vec::new(),
        version: operation.version,
    }
}
