//! A newer intent takes over from one that is unfinished, with everything that one had done.

use jiff::Timestamp;
use muster_ids::{MemberId, TypedId as _};
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationState, StepState};
use muster_store::{Result, Tx};
use serde_json::json;

use crate::child;

/// Ends `old` as superseded by `new`, which is opened with the old one's journal in its input under `inherited`. Whoever works
/// on the old one is fenced from this transaction on; its tasks and adapter steps that nobody has answered are not waited for any more, but the
/// newer operation must reckon with their effects, and every step of ours does.
pub async fn supersede(tx: &mut Tx, old: &Operation, new: &mut Operation, now: Timestamp) -> Result<bool> {
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
        leave_successor(tx, &old, &new.kind, now).await?;
    }
    Ok(true)
}

/// Whoever was to take a member's place does not do so any more: one that works stays and counts for itself, and one that is on
/// its way turns back. What its component wants is made to fit: a replacement left that as it was.
async fn leave_successor(tx: &mut Tx, replace: &Operation, new_kind: &str, now: Timestamp) -> Result<()> {
    let named: Option<MemberId> = replace.input["successor"].as_str().and_then(|text| text.parse().ok());
    let Some(id) = named else { return Ok(()) };
    let Some(successor) = tx.member_now(id).await? else { return Ok(()) };
    let on_old = tx.operation_open_on_now(replace.subject_id).await?;
    let removal =
        on_old.iter().any(|other| other.parent_id == Some(replace.id) && other.kind == "member.remove");
    let works = !matches!(
        successor.state,
        MemberState::Requested
            | MemberState::Provisioning
            | MemberState::Joining
            | MemberState::Failed
            | MemberState::Removing
            | MemberState::Removed
    );
    let old = tx.member_now(MemberId::from_uuid(replace.subject_id)).await?;
    // In the place of one that never worked the new one was wanted beside the others from the beginning.
    let beside = !removal && old.is_some_and(|old| old.never_worked());
    let more = wants_more(new_kind, works, removal) - i64::from(beside);
    if more != 0 {
        tx.component_want(successor.instance_id, &successor.component_key, more, 0).await?;
    }
    let coming = tx.operation_open_on_now(id.uuid()).await?;
    for add in coming.iter().filter(|other| other.parent_id == Some(replace.id)) {
        child::cancel(tx, add.id, now).await?;
    }
    if coming.is_empty() && successor.state == MemberState::Requested {
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
