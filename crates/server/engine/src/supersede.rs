//! A newer intent takes over from one that is unfinished, with everything that one had done.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::{MemberId, TypedId as _, World};
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationState, StepState};
use serde_json::json;

use crate::member::release_reserved;
use crate::{Timing, child};

/// Ends `old` as superseded by `new`, which is opened with the old one's journal in its input under `inherited`. Whoever works
/// on the old one is fenced from this transaction on; its tasks and adapter steps that nobody has answered are not waited for any more, but the
/// newer operation must reckon with their effects, and every step of ours does.
pub async fn supersede(
    tx: &mut Tx,
    world: &World,
    old: &Operation,
    new: &mut Operation,
    now: Timestamp,
) -> Result<bool> {
    let Some(mut old) = tx.operation_seize(old.id).await? else { return Ok(false) };
    let effects: Vec<_> = old
        .steps
        .iter()
        .filter(|step| !matches!(step.state, StepState::Pending | StepState::Skipped | StepState::Undone))
        .map(|step| json!({"step": step.name, "state": step.state, "output": step.output}))
        .collect();
    new.supersedes = Some(old.id);
    new.input["inherited"] = json!({"operation": old.id, "kind": old.kind, "effects": effects});
    old.state = OperationState::Superseded;
    old.parked = None;
    old.waiting = None;
    old.message = Some(format!("{} took over", new.id));
    tx.task_expire_of(old.id, now).await?;
    tx.adapter_step_cancel_of(old.id, now).await?;
    tx.operation_end(&old, now).await?;
    if old.kind == "member.replace" {
        leave_successor(tx, world, &old, new, now).await?;
    }
    Ok(true)
}

/// Whoever was to take a member's place does not do so any more: one that works stays and counts for itself, and one that is on
/// its way turns back. What its component wants is made to fit: a replacement left that as it was.
async fn leave_successor(
    tx: &mut Tx,
    world: &World,
    replace: &Operation,
    new: &Operation,
    now: Timestamp,
) -> Result<()> {
    let Some(id) = successor_of(replace) else { return Ok(()) };
    let Some(successor) = tx.member_now(id).await? else { return Ok(()) };
    // A newer replacement goes on with the one that has come already.
    if adopts(new, id) {
        return Ok(());
    }
    let on_old = tx.operation_open_on_now(replace.subject_id).await?;
    let removal =
        on_old.iter().any(|other| other.parent_id == Some(replace.id) && other.kind == "member.remove");
    let works = has_come(&successor);
    let old = tx.member_now(MemberId::from_uuid(replace.subject_id)).await?;
    // In the place of one that never worked the new one was wanted beside the others from the beginning.
    let beside = !removal && old.is_some_and(|old| old.never_worked());
    let more = wants_more(&new.kind, works, removal) - i64::from(beside);
    if more != 0 {
        tx.component_want(successor.instance_id, &successor.component_key, more, 0).await?;
    }
    let open = tx.operation_open_on_now(id.uuid()).await?;
    let mut coming = open.len();
    for add in open {
        if add.parent_id == Some(replace.id) && !child::cancel(tx, add.id, now).await? {
            coming -= 1;
        }
    }
    // What is under way on it releases its room at its end.
    if coming > 0 || works {
        return Ok(());
    }
    // An add that ended at this very moment has moved it on.
    let Some(successor) = tx.member_now(id).await? else { return Ok(()) };
    let ended = matches!(successor.state, MemberState::Requested | MemberState::Failed);
    if ended && successor.active_witness_id.is_none() {
        release_reserved(tx, world, &successor, replace, &Timing::default(), now).await?;
    }
    let Some(successor) = tx.member_now(id).await? else { return Ok(()) };
    if successor.state == MemberState::Requested {
        let after = Member {
            state: MemberState::Failed,
            failure_reason: Some(MemberFailure::Cancelled),
            message: Some(format!("{} is not replaced by it any more", replace.subject_name)),
            ..successor.clone()
        };
        tx.member_move(&successor, &after, now).await?;
    }
    Ok(())
}

/// The member that a replacement brings.
pub fn successor_of(replace: &Operation) -> Option<MemberId> {
    replace.input["successor"].as_str().and_then(|text| text.parse().ok())
}

/// Whether a successor has come, so that it counts for itself.
pub fn has_come(successor: &Member) -> bool {
    !matches!(
        successor.state,
        MemberState::Requested
            | MemberState::Provisioning
            | MemberState::Joining
            | MemberState::Failed
            | MemberState::Removing
            | MemberState::Removed
    )
}

/// Whether an operation goes on with this successor.
fn adopts(new: &Operation, successor: MemberId) -> bool {
    let named = successor.to_string();
    let several = new.input["successors"].as_object().into_iter().flatten();
    new.input["successor"].as_str() == Some(&named)
        || several.into_iter().any(|(_, id)| id.as_str() == Some(&named))
}

/// By how much what a component wants changes when a replacement is taken over from. Whoever removes the member wants one fewer,
/// unless its removal was under way already; a newer replacement wants as many as before.
fn wants_more(new_kind: &str, successor_works: bool, removal_under_way: bool) -> i64 {
    match (new_kind, successor_works, removal_under_way) {
        ("member.remove", true, true) => 0,
        ("member.remove", false, true) => -1,
        (_, true, _) => 1,
        (_, false, _) => 0,
    }
}
