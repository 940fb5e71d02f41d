//! Verifies that nothing depends on a member any more, before its cell is destroyed. Without declared `removed` checks there
//! is nothing to run: the platform's own evidence that the cell is gone follows anyway. Running the `drained` checks once
//! more was rejected, because an adapter's `remove` may stop the processes that they query.

use muster_db::Result;
use muster_model::cell::CellState;
use muster_model::member::{Member, MemberState};
use muster_model::witness::WitnessKind;
use serde_json::json;

use super::subject::{instance, manifest_of, refused, running_version, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{Evidence, Proof, cell_of, has_observer, not_checked, run_numbered};
use crate::{StepAction, StepOutcome};

pub(crate) const VERIFY_WITHDRAWN: Step = Step {
    name: "verify_withdrawn",
    does: "run the manifest's checks that it is removed",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if member.state == MemberState::Removed || member.incarnation == 0 {
        return Ok(StepOutcome::with_message("no other member ever depended on it").into());
    }
    let instance = instance(cx, &member).await?;
    let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
    let forced = cx.operation.input.force;
    let declared = match manifest.component(&member.component_key) {
        // A member that never worked is handled by the current release of its instance, which may lack its component.
        None => Vec::new(),
        Some(component) => component.witnesses.removed.clone(),
    };
    let nothing_declared = declared.is_empty();
    let cell = cell_of(cx, &member).await?;
    let node = match &cell {
        Some(cell) => cx.store.node_lookup(cell.node_id).await?,
        None => None,
    };
    let heard = node.is_some_and(|node| node.unreachable_since.is_none());
    let runs = cell.is_some_and(|cell| cell.state == CellState::Running);
    let inside = can_look_inside(runs, heard, member.fenced, forced);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let mut unasked = Vec::new();
    for (number, check) in declared.into_iter().enumerate() {
        if check.place == "self" {
            own.extend(inside.then_some((number, check)));
        // With the last possible observer gone, nothing is left that could depend on it.
        } else if has_observer(cx, &instance, &member, &check).await? {
            others.push((number, check));
        } else {
            let why = format!("no member of {} is left to run the check in", check.place);
            unasked.push(not_checked(number, &check, &why, &[]));
        }
    }
    let mut evidence = match run_numbered(cx, &manifest, &instance, &member, &own).await? {
        Proof::Pending(act) => return Ok(act),
        Proof::Seen(evidence) => evidence,
        // A forced removal destroys the cell whatever its own checks report; only a check that another member runs can
        // prevent it.
        Proof::Not(_, why) if forced => {
            let checked = json!({"what": "checks in its own cell", "does_not_hold": why, "forced": true});
            Evidence { checked: vec![checked], ..Evidence::default() }
        }
        Proof::Not(reason, why) => return Ok(refused(reason, why).into()),
    };
    let with_instance = cx.operation.input.with_instance;
    match run_numbered(cx, &manifest, &instance, &member, &others).await? {
        Proof::Pending(act) => return Ok(act),
        // The whole instance is removed by force: its remaining dependents are removed later, and then the check passes.
        Proof::Not(_, why) if forced && with_instance => {
            let reason = format!("{why}; waiting for the rest of the instance to be removed");
            return Ok(StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into());
        }
        Proof::Not(reason, why) => return Ok(refused(reason, why).into()),
        Proof::Seen(seen) => evidence.extend(seen),
    }
    // No check ran that could find its cell dead; if that was proved when it was drained, it leaves as lost.
    if nothing_declared && let Some(proof) = lost_when_drained(cx, &member).await? {
        evidence.extend(proof);
    }
    evidence.checked.extend(unasked);
    Ok(StepOutcome::with(evidence).into())
}

/// Returns the evidence that this member's cell was already dead when it was drained.
async fn lost_when_drained(cx: &StepCx<'_>, member: &Member) -> Result<Option<Evidence>> {
    let Some(id) = member.drained_witness_id else { return Ok(None) };
    let drained = cx
        .store
        .witness_lookup(id)
        .await?
        .filter(|drained| drained.kind == WitnessKind::Lost && drained.incarnation == member.incarnation);
    Ok(drained.map(|drained| Evidence {
        checked: vec![json!({"what": "its cell", "lost": true, "witness_id": drained.id})],
        node: drained.node_id,
        task: drained.task_id,
        lost: true,
    }))
}

/// Reports whether checks can run inside the member's cell. They cannot in a stopped or fenced cell; checks beside other
/// members still can. An unreachable node is waited for unless the removal is forced.
fn can_look_inside(runs: bool, heard: bool, fenced: bool, forced: bool) -> bool {
    runs && !fenced && (heard || !forced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verification_never_waits_for_impossible_checks_inside_a_cell() {
        assert!(can_look_inside(true, true, false, false));
        assert!(can_look_inside(true, true, false, true));
        assert!(can_look_inside(true, false, false, false), "its node may be heard again");
        assert!(!can_look_inside(true, false, false, true));
        assert!(!can_look_inside(false, true, false, false));
        assert!(!can_look_inside(true, true, true, false));
    }
}
