//! Request the cancellation of an operation.

use muster_api::Code;
use muster_api::operation::OperationCancel;
use muster_authz::Permission;
use muster_engine::definition;
use muster_model::event::EventType;
use muster_model::operation::OperationState;
use serde_json::json;

use super::{path, view_for};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `operation_cancel`. The engine rolls back the completed steps first.
pub async fn cancel(cx: &Cx, reference: &str, body: OperationCancel) -> Result<PreparedCommand> {
    let mut operation = cx.operation(reference).await?;
    cx.authorize(Permission::OperationCancel, operation.scope(), "operation")?;
    let invalid = |detail: String| Error::new(Code::InvalidState, detail);
    if operation.state.is_final() {
        return Err(invalid(format!("it has ended: it is {}", operation.state)));
    }
    if operation.state == OperationState::Blocked {
        return Err(invalid("it is blocked: resolve it with one of its actions".to_owned()));
    }
    let kind = definition(operation.kind);
    if kind.is_none_or(|kind| !kind.cancellable || kind.is_past_return(&operation)) {
        return Err(invalid(format!("{} can no longer be cancelled", operation.kind)));
    }
    let subject = path(&operation);
    let told = json!({"kind": operation.kind, "reason": body.reason.unwrap_or_default()});
    let named = target("operation", operation.id, operation.kind.as_str());
    let now = cx.now;
    let before = view_for(cx.is_operator(), &operation);
    operation.cancel_requested = true;
    let (to_operator, timeline) = (cx.is_operator(), operation.timeline);
    let commit = PreparedCommand::new(operation.scope(), named, move |tx| {
        Box::pin(async move {
            tx.operation_cancel(operation.id, now).await?;
            Ok(Answer::new(&view_for(to_operator, &operation)))
        })
    });
    let commit = commit.timeline(timeline).before(&before).wakes_engine();
    Ok(commit.event(cx, EventType::OperationCancelRequested, subject, told))
}
