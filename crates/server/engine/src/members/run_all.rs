//! Runs the operation for each of the named members. The undo cancels the open ones; finished ones stay and are listed.

use muster_db::{Result, StoreError};
use muster_ids::{InstanceId, MemberId, TypedId as _};
use muster_manifest::Verb;

use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather, quarantined};
use crate::member::{definitions_for, manifest_of};
use crate::{StepAction, StepOutcome, child};

pub(super) const RUN_ALL: Step = Step {
    name: "run_all",
    does: "run the operation on each member",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

/// Default concurrency.
const AT_ONCE: usize = 64;

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let verb = cx.operation.kind.verb();
    let verb = Verb::ALL.into_iter().find(|known| known.as_str() == verb);
    let verb = verb.ok_or(StoreError::Corrupt("a verb of members"))?;
    let mut planned = Vec::new();
    for item in &cx.operation.items {
        let id: MemberId = item.id.parse().map_err(|_| StoreError::Corrupt("a member of an operation"))?;
        let member = cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?;
        let input = cx.operation.input.for_item(id);
        planned.push(Planned { member, definition: definitions_for(verb).0, input });
    }
    let at_once = match verb {
        Verb::Add | Verb::Resume | Verb::Recover => AT_ONCE,
        Verb::Drain | Verb::Remove | Verb::Replace => pace(cx, &planned).await?,
    };
    let (items, succeeded) = match gather(cx, planned, at_once, TakesOver::Nothing).await? {
        Gathered::Pending(act) => return Ok(act),
        Gathered::Ended(items, succeeded) => (items, succeeded),
    };
    let all = items.len();
    Ok(StepAction::commit(move |_, effects| {
        Box::pin(async move {
            let (why, quarantined) = (failures(&items), quarantined(&items));
            effects.items = Some(items);
            if let Some(refused) = quarantined {
                return Ok(refused);
            }
            Ok(match succeeded {
                done if done == all => StepOutcome::with_message(format!("all {all} of them")),
                0 => StepOutcome::Refused { reason: "all_failed", message: format!("none of {all}: {why}") },
                done => StepOutcome::Refused {
                    reason: "some_failed",
                    message: format!("{done} of {all} are done; {why}"),
                },
            })
        })
    }))
}

/// Returns how many members may be out of work at once: the slowest pace of the components concerned.
async fn pace(cx: &StepCx<'_>, planned: &[Planned]) -> Result<usize> {
    let instance = cx.store.instance_lookup(InstanceId::from_uuid(cx.operation.subject_id)).await?;
    let instance = instance.ok_or(StoreError::Gone("instance".to_owned()))?;
    let manifest = manifest_of(cx, instance.app_version_id).await?;
    let paces = planned
        .iter()
        .filter_map(|plan| manifest.component(&plan.member.component_key))
        .map(|component| component.drain_pace.at_once);
    Ok(usize::try_from(paces.min().unwrap_or(1)).unwrap_or(1).max(1))
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    let open: Vec<_> = children.into_iter().filter(|child| !child.state.is_final()).collect();
    if open.is_empty() {
        return Ok(StepOutcome::with_message("nothing is in progress").into());
    }
    let (now, look, left) = (cx.now, cx.timing.look, open.len());
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            for child in open {
                child::cancel(tx, child.id, now).await?;
            }
            Ok(StepOutcome::Wait {
                reason: format!("waiting until {left} of them have ended"),
                until: now + look,
            })
        })
    }))
}
