//! Removes all members of an instance, component by component in reverse start order.
//!
//! A component starts once it is verified that nothing depends on the members of those before it. It does not wait for their
//! cells to be destroyed and wiped.

use muster_db::{Result, StoreError};
use muster_ids::MemberId;
use muster_manifest::Manifest;
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceState};
use muster_model::member::Member;
use muster_model::operation::{ItemState, OperationState, StepState};
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::shrink::{among_all, ended};
use super::subject::{item_of, order, path, subject};
use crate::adapter::Skipped;
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather, quarantined};
use crate::member::{REMOVE, VERIFY_WITHDRAWN, WITHDRAW, manifest_of};
use crate::step_outcome::recorded;
use crate::{StepAction, StepOutcome};

pub(super) const STOP: Step = Step {
    name: "stop",
    does: "remove the members, component by component",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("removed members are not restored"),
};

const AT_ONCE: usize = 64;

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let instance = subject(cx).await?;
    if !matches!(instance.state, InstanceState::Stopping | InstanceState::Stopped) {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let after = Instance {
                    state: InstanceState::Stopping,
                    operation_id: Some(operation_id),
                    reconcile_due_at: None,
                    ..instance.clone()
                };
                tx.instance_move(&instance, &after, now).await?;
                effects.events.push((
                    EventType::InstanceStopping,
                    path(&after),
                    json!({"name": instance.name}),
                ));
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    let manifest = manifest_of(cx, instance.app_version_id).await?;
    let mut members = cx.store.member_living(instance.id).await?;
    // A removed member stays in the plan until its item holds the outcome.
    for item in cx.operation.items.iter().filter(|item| item.state != ItemState::Succeeded) {
        let id: MemberId = item.id.parse().map_err(|_| StoreError::Corrupt("a member of an operation"))?;
        if !members.iter().any(|member| member.id == id) {
            members.extend(cx.store.member_lookup(id).await?);
        }
    }
    members.retain(|member| item_of(cx, member).is_none_or(|item| item.state != ItemState::Succeeded));
    if members.is_empty() {
        return Ok(StepOutcome::with_message("it has no members").into());
    }
    let (last, all) = (begun(cx, &manifest, &members).await?, members.len());
    members.retain(|member| order(&manifest, member) >= last);
    let is_last_wave = members.len() == all;
    // The whole instance is removed: no other member has to take over the work.
    let input = OperationInput {
        with_instance: true,
        quarantined: cx.operation.input.quarantined,
        ..OperationInput::forced(is_forced(cx))
    };
    let planned: Vec<Planned> = members
        .into_iter()
        .map(|member| Planned { member, definition: &REMOVE, input: input.clone() })
        .collect();
    Ok(match gather(cx, planned, AT_ONCE, TakesOver::All).await? {
        Gathered::Pending(act) => among_all(cx, act),
        Gathered::Ended(items, done) if items.len() == done => {
            let until = cx.now;
            ended(cx, items, StepOutcome::Wait { reason: "the next components follow".to_owned(), until })
        }
        Gathered::Ended(items, _) => {
            let outcome = match quarantined(&items) {
                Some(outcome) if is_last_wave => outcome,
                Some(_) => {
                    StepOutcome::Wait { reason: "the next components follow".to_owned(), until: cx.now }
                }
                None => StepOutcome::Refused { reason: "some_failed", message: failures(&items) },
            };
            ended(cx, items, outcome)
        }
    })
}

/// Returns the current wave: all earlier ones are removed, or verified as withdrawn.
async fn begun(cx: &StepCx<'_>, manifest: &Manifest, members: &[Member]) -> Result<u32> {
    let mut waves: Vec<u32> = members.iter().map(|member| order(manifest, member)).collect();
    waves.sort_unstable();
    waves.dedup();
    while let (Some(wave), true) = (waves.last().copied(), waves.len() > 1) {
        for member in members.iter().filter(|member| order(manifest, member) == wave) {
            if !withdrawn(cx, member).await? {
                return Ok(wave);
            }
        }
        waves.pop();
    }
    Ok(waves.first().copied().unwrap_or_default())
}

fn is_forced(cx: &StepCx<'_>) -> bool {
    cx.operation.input.force
}

/// Reports whether the child that removes a member has verified that nothing depends on it. If forced, the next component
/// does not wait for a check that cannot pass: that member may depend on the next component itself, and passes once that is
/// removed.
async fn withdrawn(cx: &StepCx<'_>, member: &Member) -> Result<bool> {
    let Some(child) = item_of(cx, member).and_then(|item| item.operation_id) else { return Ok(false) };
    let Some(child) = cx.store.operation_lookup(child).await?.filter(|child| child.kind == REMOVE.kind)
    else {
        return Ok(false);
    };
    let Some(step) = child.step(VERIFY_WITHDRAWN.name) else { return Ok(false) };
    let patience = cx.timing.task + cx.timing.task;
    // No adapter withdrew it, so the check is not expected to pass before the rest is removed.
    let skipped = recorded::<Skipped>(&child, &WITHDRAW)?.is_some();
    let held_up = child.state == OperationState::Blocked
        || step.started_at.is_some_and(|since| skipped || cx.now >= since + patience);
    Ok(step.state == StepState::Done || is_forced(cx) && held_up)
}
