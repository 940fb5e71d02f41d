//! Decommissions an instance: remove its members · remove their shared directories · verify that nothing is left. A forced one
//! ends after the removals if members are left in quarantine on unreachable nodes, and the platform finishes it.

use muster_db::Result;
use muster_model::event::EventType;
use muster_model::operation::{ItemState, OperationKind, OperationState};
use serde_json::json;

use super::stop::STOP;
use super::subject::{path, subject};
use super::unshare::UNSHARE;
use super::verify_stopped::VERIFY_STOPPED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::member::platform_cleanup;
use crate::step_outcome::QUARANTINED;
use crate::{StepAction, StepOutcome};

/// `instance.decommission`. It cannot be rolled back: a stuck one is blocked.
pub const DECOMMISSION: Definition = Definition {
    kind: OperationKind::InstanceDecommission,
    steps: &[STOP, UNSHARE, VERIFY_STOPPED],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// Hands what is left in quarantine over to the platform. The instance stays `stopping`, its secrets are revoked, and its
/// name is free for another.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let quarantined = cx.operation.reason.as_deref() == Some(QUARANTINED);
    if state != OperationState::Partial || !quarantined {
        return Ok(StepOutcome::done().into());
    }
    let (instance, mut rest) = (subject(cx).await?, platform_cleanup(cx, "instance")?);
    rest.items = cx.operation.items.clone();
    rest.items.retain(|item| item.state != ItemState::Succeeded);
    for item in &mut rest.items {
        (item.state, item.operation_id, item.message) = (ItemState::Pending, None, None);
    }
    let left: Vec<String> = rest.items.iter().map(|item| item.name.clone()).collect();
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.operation_open(&rest).await?;
            tx.runtime_secret_revoke_of_instance(instance.id, now).await?;
            tx.instance_free_name_of_quarantined(&instance, now).await?;
            let data = json!({"name": instance.name, "members": left, "finished_by": rest.id});
            effects.events.push((EventType::InstanceQuarantined, path(&instance), data));
            Ok(StepOutcome::done())
        })
    }))
}
