//! See for ourselves that nothing counts on a member any more, before its cell goes. Where the manifest says nothing of that,
//! the checks of a drained member are run once more: nothing may have come to it since.

use futures::future::BoxFuture;
use muster_manifest::Check;
use muster_model::member::{MemberFailure, MemberState};
use muster_store::Result;
use serde_json::json;

use super::subject::{instance, manifest_of, refused, running_version, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{Proof, cell_of, run_checks};
use crate::{Act, Verdict};

pub(super) const VERIFY_WITHDRAWN: Step = Step {
    name: "verify_withdrawn",
    does: "runs the checks that say that nothing counts on it any more",
    verifies: true,
    run,
    undo: Undo::None("looking changes nothing"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let member = subject(cx).await?;
        if member.state == MemberState::Removed || member.incarnation == 0 {
            return Ok(Verdict::said("nothing ever counted on it").into());
        }
        let instance = instance(cx, &member).await?;
        let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
        let forced = cx.operation.input["force"] == json!(true);
        let declared = match manifest.component(&member.component_key) {
            // One that never worked is judged by the release that its instance runs by now, which may not know of its like.
            None => Vec::new(),
            Some(component) if !component.witnesses.removed.is_empty() => component.witnesses.removed.clone(),
            Some(_) if forced => Vec::new(),
            Some(component) => component.witnesses.drained.clone(),
        };
        // Inside a cell that is gone, or that nobody can reach, nothing can be run; what others say of it still can.
        let gone = cell_of(cx, &member).await?.is_none_or(|cell| cell.state.is_final());
        let beside = |check: &Check| check.place != "self";
        let others = cx.store.member_living(instance.id).await?;
        let asked = |check: &&Check| {
            check.place == "self"
                || others.iter().any(|other| {
                    other.component_key == check.place
                        && other.id != member.id
                        && other.state == MemberState::Active
                })
        };
        let checks: Vec<Check> = declared
            .iter()
            .filter(|check| beside(check) || !(gone || member.fenced))
            // With the last of those who could say so gone too, there is nobody left who could count on it.
            .filter(asked)
            .cloned()
            .collect();
        Ok(match run_checks(cx, &manifest, &instance, &member, &checks).await? {
            Proof::Pending(act) => act,
            Proof::Not(why) => refused(MemberFailure::NotWitnessed, why).into(),
            Proof::Seen(evidence) => Verdict::with(json!({"checked": evidence.checked})).into(),
        })
    })
}
