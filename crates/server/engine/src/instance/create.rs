//! Launches an app: add its members (undo: remove them) · verify that every component has enough of them.

use muster_db::Result;
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceFailure, InstanceState};
use muster_model::operation::{OperationKind, OperationState};
use serde_json::json;

use super::start::START;
use super::subject::{path, subject};
use super::verify_running::VERIFY_RUNNING;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{StepAction, StepOutcome};

/// `instance.create`.
pub const CREATE: Definition = Definition {
    kind: OperationKind::InstanceCreate,
    steps: &[START, VERIFY_RUNNING],
    on_failure: OnFailure::Undo,
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: Some("verify_running"),
    abandon: Abandon::Undo,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// Fails an instance that did not start; it is decommissioned like any other. If the undo left nothing of it, its name is
/// free.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let instance = subject(cx).await?;
    let over = !matches!(instance.state, InstanceState::Created | InstanceState::Starting);
    if state == OperationState::Succeeded || over {
        return Ok(StepOutcome::done().into());
    }
    let reason = match (state, cx.operation.reason.as_deref()) {
        (OperationState::Cancelled, _) => InstanceFailure::Cancelled,
        (_, Some("deadline_passed")) => InstanceFailure::DeadlinePassed,
        _ => InstanceFailure::BelowMinimum,
    };
    let message = cx.operation.message.clone();
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            let after =
                Instance { state: InstanceState::Failed, reason: Some(reason), message, ..instance.clone() };
            tx.instance_move(&instance, &after, now).await?;
            tx.instance_free_name(&instance, now).await?;
            let data = json!({"name": instance.name, "reason": reason, "advice": reason.advice()});
            effects.events.push((EventType::InstanceFailed, path(&after), data));
            Ok(StepOutcome::done())
        })
    }))
}
