//! See for ourselves that nothing counts on a member any more, before its cell goes. Where the manifest says nothing of that,
//! the checks of a drained member are run once more: nothing may have come to it since.

use futures::future::BoxFuture;
use muster_manifest::Check;
use muster_model::cell::CellState;
use muster_model::member::{MemberFailure, MemberState};
use muster_store::Result;
use serde_json::json;

use super::subject::{instance, manifest_of, refused, running_version, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::{Proof, anybody, cell_of, run_numbered};
use crate::{Act, Verdict};

pub(crate) const VERIFY_WITHDRAWN: Step = Step {
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
        let cell = cell_of(cx, &member).await?;
        let node = match &cell {
            Some(cell) => cx.store.node_lookup(cell.node_id).await?,
            None => None,
        };
        let heard = node.is_some_and(|node| node.unreachable_since.is_none());
        let runs = cell.is_some_and(|cell| cell.state == CellState::Running);
        let inside = can_look_inside(runs, heard, member.fenced, forced);
        let mut checks: Vec<(usize, Check)> = Vec::new();
        for (number, check) in declared.into_iter().enumerate() {
            let asked = match check.place == "self" {
                true => inside,
                // With the last of those who could say so gone too, there is nobody left who could count on it.
                false => anybody(cx, &instance, &member, &check).await?,
            };
            if asked {
                checks.push((number, check));
            }
        }
        Ok(match run_numbered(cx, &manifest, &instance, &member, &checks).await? {
            Proof::Pending(act) => act,
            Proof::Not(why) => refused(MemberFailure::NotWitnessed, why).into(),
            Proof::Seen(evidence) => Verdict::with(json!({"checked": evidence.checked})).into(),
        })
    })
}

/// Inside a cell that does not run, or that nobody can reach, nothing can be run; what others say of it still can. A node that
/// is only not heard is waited for, unless that is forced.
fn can_look_inside(runs: bool, heard: bool, fenced: bool, forced: bool) -> bool {
    runs && !fenced && (heard || !forced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_what_cannot_be_seen_from_inside() {
        assert!(can_look_inside(true, true, false, false));
        assert!(can_look_inside(true, true, false, true));
        assert!(can_look_inside(true, false, false, false), "its node may be heard again");
        assert!(!can_look_inside(true, false, false, true));
        assert!(!can_look_inside(false, true, false, false));
        assert!(!can_look_inside(true, true, true, false));
    }
}
