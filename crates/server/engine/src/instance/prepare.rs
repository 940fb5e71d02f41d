//! Records the desired release and configuration of an instance, and those it ran before.

use muster_db::{Result, StoreError};
use muster_model::instance::Instance;

use super::subject::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const PREPARE: Step = Step {
    name: "prepare",
    does: "record the target release",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a rollback is an operation of its own"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let instance = subject(cx).await?;
    let input = &cx.operation.input;
    let to = input.app_version_id.ok_or(StoreError::Corrupt("a release to go to"))?;
    let from = input.from.unwrap_or(instance.app_version_id);
    let config = input.config.clone().unwrap_or_else(|| instance.config.clone());
    if instance.app_version_id == to && instance.config == config {
        return Ok(StepOutcome::with_message("the target is recorded").into());
    }
    let (now, operation_id) = (cx.now, cx.operation.id);
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let after = Instance {
                app_version_id: to,
                previous_version_id: Some(from),
                previous_config: Some(instance.config.clone()),
                config,
                operation_id: Some(operation_id),
                ..instance.clone()
            };
            tx.instance_move(&instance, &after, now).await?;
            Ok(StepOutcome::done())
        })
    }))
}
