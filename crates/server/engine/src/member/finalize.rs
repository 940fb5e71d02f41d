//! Finalizes a removal: by the evidence that the cell is gone and the allocation wiped, or by an operator's attestation. The
//! two are recorded as different kinds of evidence.

use muster_db::Result;
use muster_ids::TypedId as _;
use muster_model::allocation::AllocationState;
use muster_model::cell::CellState;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::subject::{path, refused, subject};
use super::verify_withdrawn::VERIFY_WITHDRAWN;
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{Evidence, cell_of};
use crate::step_outcome::recorded;
use crate::{StepAction, StepOutcome};

pub(super) const FINALIZE: Step = Step {
    name: "finalize",
    does: "verify that nothing is left of it",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if member.state == MemberState::Removed {
        return Ok(StepOutcome::with_message("it is removed").into());
    }
    let mut evidence = Vec::new();
    let mut checked = Vec::new();
    if let Some(cell) = cell_of(cx, &member).await? {
        match cell.state {
            CellState::Destroyed => {}
            // It was never created; the undo of its creation verified that nothing is left.
            CellState::Failed => {}
            state => {
                let reason = format!("its cell is {state}, and is destroyed with its allocation");
                return Ok(StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into());
            }
        }
        checked.push(json!({"what": "its cell", "cell_id": cell.id, "state": cell.state,
                            "witness_id": cell.destroyed_witness_id}));
        if let Some(id) = cell.destroyed_witness_id {
            evidence.extend(cx.store.witness_lookup(id).await?);
        }
    } else {
        checked.push(json!({"what": "its cell", "state": "it never had one"}));
    }
    if let Some(id) = member.allocation_id.filter(|_| member.allocation_made)
        && let Some(allocation) = cx.store.allocation_lookup(id).await?
    {
        let others = cx.store.member_in(id).await?.iter().any(|other| other.id != member.id);
        let ended = matches!(allocation.state, AllocationState::Released | AllocationState::Failed);
        if !ended && !others {
            let why = format!("the allocation created for it is {}", allocation.state);
            return Ok(refused(MemberFailure::ProvisionFailed, why).into());
        }
        checked.push(json!({"what": "its allocation", "allocation_id": id, "state": allocation.state,
                            "witness_id": allocation.wiped_witness_id}));
        if let Some(id) = allocation.wiped_witness_id {
            evidence.extend(cx.store.witness_lookup(id).await?);
        }
    }
    if let Some(step) = cx.operation.step(VERIFY_WITHDRAWN.name) {
        checked.push(json!({"what": "that nothing counts on it", "found": step.output}));
    }
    let word = evidence.iter().find(|witness| witness.kind == WitnessKind::Attested);
    let withdrawn: Evidence = recorded(cx.operation, &VERIFY_WITHDRAWN)?.unwrap_or_default();
    let node_id = evidence.last().and_then(|seen| seen.node_id).or(withdrawn.node);
    // The death of its own cell stood in for the checks in it.
    let kind = match word {
        Some(word) => word.kind,
        None if withdrawn.lost && node_id.is_some() => WitnessKind::Lost,
        None => WitnessKind::Witnessed,
    };
    let witness = Witness {
        id: cx.env.id(),
        subject_id: member.id.uuid(),
        transition: Transition::Removed,
        kind,
        incarnation: member.incarnation,
        operation_id: Some(cx.operation.id),
        node_id,
        task_id: evidence.last().and_then(|seen| seen.task_id),
        actor_id: word.and_then(|word| word.actor_id.clone()),
        checked: json!(checked),
        result: json!({}),
        at: cx.now,
    };
    Ok(write(cx, member, witness))
}

fn write(cx: &StepCx<'_>, member: Member, witness: Witness) -> StepAction {
    let now = cx.now;
    StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            // Lock the instance's row before the member's, as an assessment does.
            if witness.kind == WitnessKind::Attested {
                tx.instance_unwitnessed(member.instance_id, now).await?;
            }
            tx.witness_insert(&witness).await?;
            let after = Member {
                state: MemberState::Removed,
                removed_witness_id: Some(witness.id),
                ..member.clone()
            };
            tx.member_move(&member, &after, now).await?;
            let data = json!({"name": member.name, "component_key": member.component_key,
                              "witness_id": witness.id, "evidence": witness.kind});
            effects.events.push((EventType::MemberRemoved, path(&after), data));
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    })
}
