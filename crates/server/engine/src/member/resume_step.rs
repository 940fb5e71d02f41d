//! Resumes a member through the adapter.

use muster_db::Result;
use muster_model::adapter::AdapterVerb;
use muster_model::member::{Member, MemberFailure, MemberState};
use serde_json::json;

use super::subject::{instance, manifest_of, refused, running_version, subject};
use crate::adapter::{Answered, ask_adapter, asked};
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const RESUME_STEP: Step = Step {
    name: "resume",
    does: "adapter resumes the member",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("an active member is not drained without its owner"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    let instance = instance(cx, &member).await?;
    let rests = matches!(member.state, MemberState::Drained | MemberState::Draining);
    if rests && member.app_version_id != Some(instance.app_version_id) {
        let message = "its instance runs another release now: replace it".to_owned();
        return Ok(StepOutcome::Refused { reason: "invalid_state", message }.into());
    }
    if member.state == MemberState::Drained {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, _| {
            Box::pin(async move {
                let after = Member {
                    state: MemberState::Joining,
                    operation_id: Some(operation_id),
                    ..member.clone()
                };
                tx.member_move(&member, &after, now).await?;
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    if member.state == MemberState::Active {
        return Ok(StepOutcome::with_message("it is active").into());
    }
    // An earlier operation in the queue may have removed or failed it.
    if !matches!(member.state, MemberState::Draining | MemberState::Joining) {
        let message = format!("it is {}, and only a drained member can be resumed", member.state);
        return Ok(StepOutcome::Refused { reason: "invalid_state", message }.into());
    }
    let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
    let input = asked(cx);
    Ok(match ask_adapter(cx, &manifest, &instance, &member, AdapterVerb::Resume, input).await? {
        Answered::Pending(act) => act,
        Answered::Done(message) => StepOutcome::Done { output: json!(null), message, witness: None }.into(),
        Answered::Failed(why) => refused(MemberFailure::AdapterFailed, why).into(),
    })
}
