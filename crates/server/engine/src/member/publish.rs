//! Publishes that a member works: as an event, and to its adapter, which assesses the instance soon.

use futures::future::BoxFuture;
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
    run,
    undo: Undo::None("published events stay true"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<StepAction>> {
    Box::pin(async move {
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
    })
}
