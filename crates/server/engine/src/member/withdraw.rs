//! Withdraws a leaving member through the adapter. From here on it is being removed, whatever happens.

use muster_db::Result;
use muster_model::adapter::AdapterVerb;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use serde_json::json;

use super::subject::{instance, manifest_of, path, refused, running_version, subject};
use crate::adapter::{LetGo, ask_to_let_go};
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(crate) const WITHDRAW: Step = Step {
    name: "withdraw",
    does: "adapter withdraws the member",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a withdrawn member is not restored"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if member.state == MemberState::Removed {
        return Ok(StepOutcome::with_message("it is removed").into());
    }
    if member.state != MemberState::Removing || member.operation_id != Some(cx.operation.id) {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let after = Member {
                    state: MemberState::Removing,
                    operation_id: Some(operation_id),
                    ..member.clone()
                };
                tx.member_move(&member, &after, now).await?;
                effects.events.push((EventType::MemberRemoving, path(&after), json!({"name": member.name})));
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    // No adapter ever joined it, so none has to withdraw it.
    if member.incarnation == 0 {
        return Ok(StepOutcome::with_message("no adapter ever knew of it").into());
    }
    let instance = instance(cx, &member).await?;
    let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
    Ok(match ask_to_let_go(cx, &manifest, &instance, &member, AdapterVerb::Remove).await? {
        LetGo::Pending(act) | LetGo::Done(act) => act,
        LetGo::Failed(why) => refused(MemberFailure::AdapterFailed, why).into(),
    })
}
