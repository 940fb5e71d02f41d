//! Publishes that a member works: as an event, and to its adapter, which assesses the instance soon.

use muster_db::Result;
use muster_model::event::EventType;
use muster_model::operation::OperationKind;
use serde_json::json;

use super::subject::{path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const PUBLISH: Step = Step {
    name: "publish",
    does: "publish the change",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("published events stay true"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    let event = match cx.operation.kind {
        OperationKind::MemberResume => EventType::MemberResumed,
        _ => EventType::MemberAdded,
    };
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.instance_schedule_reconcile(member.instance_id, now).await?;
            let data = json!({"name": member.name, "component_key": member.component_key,
                              "incarnation": member.incarnation, "witness_id": member.active_witness_id});
            effects.events.push((event, path(&member), data));
            Ok(StepOutcome::done())
        })
    }))
}
