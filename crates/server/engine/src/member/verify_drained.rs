//! Verifies that a member has no work and receives none.

use muster_db::Result;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberState};
use muster_model::witness::Transition;
use serde_json::json;

use super::drain_step::nothing_to_drain;
use super::subject::{instance, manifest_of, path, refused, running_version, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{Expectation, Proof, component, verify};
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_DRAINED: Step = Step {
    name: "verify_drained",
    does: "run the manifest's checks that it is drained",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if let Some(why) = nothing_to_drain(cx, &member) {
        return Ok(StepOutcome::with_message(why).into());
    }
    let instance = instance(cx, &member).await?;
    let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
    let checks = &component(&manifest, &member)?.witnesses.drained;
    let evidence = match verify(cx, Expectation::Leaves, &manifest, &instance, &member, checks).await? {
        Proof::Pending(act) => return Ok(act),
        Proof::Not(reason, why) => return Ok(refused(reason, why).into()),
        Proof::Seen(evidence) => evidence,
    };
    let witness = evidence.witness(cx, &member, Transition::Drained);
    let (now, operation_id) = (cx.now, cx.operation.id);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            let after = Member {
                state: MemberState::Drained,
                drained_witness_id: Some(witness.id),
                operation_id: Some(operation_id),
                ..member.clone()
            };
            tx.member_move(&member, &after, now).await?;
            let data = json!({"name": member.name, "witness_id": witness.id, "evidence": witness.kind});
            effects.events.push((EventType::MemberDrained, path(&after), data));
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
