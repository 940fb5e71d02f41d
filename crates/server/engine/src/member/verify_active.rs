//! Verifies that a member works; only then does it become active.

use muster_db::Result;
use muster_model::instance::Health;
use muster_model::member::{Member, MemberState};
use muster_model::operation::OperationKind;
use muster_model::witness::Transition;
use serde_json::json;

use super::subject::{instance, manifest_of, refused, running_version, subject, wanted_version};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{Expectation, Proof, component, verify};
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_ACTIVE: Step = Step {
    name: "verify_active",
    does: "inspect the cell and run the manifest's checks",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    verify_and_activate(cx, member).await
}

/// Verifies a member and makes it active by the evidence.
pub(super) async fn verify_and_activate(cx: &StepCx<'_>, member: Member) -> Result<StepAction> {
    let instance = instance(cx, &member).await?;
    let changes = matches!(
        cx.operation.kind,
        OperationKind::MemberAdd | OperationKind::MemberRecover | OperationKind::MemberUpgrade
    );
    let version = match changes {
        true => wanted_version(cx, &instance),
        false => running_version(&member, &instance),
    };
    let manifest = manifest_of(cx, version).await?;
    let checks = &component(&manifest, &member)?.witnesses.active;
    let evidence = match verify(cx, Expectation::Works, &manifest, &instance, &member, checks).await? {
        Proof::Pending(act) => return Ok(act),
        Proof::Not(reason, why) => return Ok(refused(reason, why).into()),
        Proof::Seen(evidence) => evidence,
    };
    let witness = evidence.witness(cx, &member, Transition::Active);
    let (now, operation_id) = (cx.now, cx.operation.id);
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            let after = Member {
                state: MemberState::Active,
                health: Health::Healthy,
                health_message: None,
                health_incarnation: member.incarnation,
                health_reason: None,
                health_since: Some(now),
                app_version_id: Some(version),
                active_witness_id: Some(witness.id),
                operation_id: Some(operation_id),
                failure_reason: None,
                message: None,
                ..member.clone()
            };
            tx.member_move(&member, &after, now).await?;
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
