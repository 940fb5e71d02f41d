//! Supersedes an unfinished operation with a newer one, which inherits its effects.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::{Env, MemberId, TypedId as _};
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationKind, OperationState, StepRecord, StepState};
use muster_model::operation_input::{Inherited, InheritedEffect};

use crate::member::release_reserved;
use crate::{Timing, child};

/// Ends `old` as superseded by `new`, which receives the old journal as `inherited` in its input. From this transaction on,
/// the engine working on `old` is fenced. Unanswered tasks and adapter steps of `old` expire, but `new` must handle their
/// effects, and every step does.
pub async fn supersede(
    tx: &mut Tx,
    env: &Env,
    old: &Operation,
    new: &mut Operation,
    now: Timestamp,
) -> Result<bool> {
    let Some(mut old) = tx.operation_seize(old.id).await? else { return Ok(false) };
    let effects: Vec<_> = old
        .steps
        .iter()
        .filter(|step| !matches!(step.state, StepState::Pending | StepState::Skipped | StepState::Undone))
        .map(|step| InheritedEffect {
            step: step.name.clone(),
            state: step.state,
            output: step.output.clone(),
        })
        .collect();
    new.supersedes = Some(old.id);
    new.input.inherited = Some(Inherited { operation: old.id, kind: old.kind, effects });
    old.state = OperationState::Superseded;
    old.blocked = None;
    old.waiting = None;
    old.message = Some(format!("superseded by {}", new.id));
    tx.task_expire_of(old.id, now).await?;
    tx.adapter_step_cancel_of(old.id, now).await?;
    tx.operation_end(&old, now).await?;
    if old.kind == OperationKind::MemberReplace {
        leave_successor(tx, env, &old, new, now).await?;
    }
    if old.kind == OperationKind::MemberRemove && keeps_member(new.kind) {
        count_again(tx, &old).await?;
    }
    Ok(true)
}

/// Reports whether a member, or its successor, stays after an operation of this kind.
fn keeps_member(kind: OperationKind) -> bool {
    use OperationKind::{
        MemberDrain, MemberRecover, MemberReplace, MembersDrain, MembersRecover, MembersReplace,
    };
    matches!(
        kind,
        MemberDrain | MemberRecover | MemberReplace | MembersDrain | MembersRecover | MembersReplace
    )
}

/// Reverts the desired count that a removal lowered when it was accepted. The removals of a replacement and of a decommission lower
/// none by themselves, nor does that of a member that was not counted.
async fn count_again(tx: &mut Tx, removal: &Operation) -> Result<()> {
    let id = MemberId::from_uuid(removal.subject_id);
    let Some(member) = tx.member_now(id).await? else { return Ok(()) };
    let mut accepted = Some(removal.clone());
    if let Some(parent) = removal.parent_id {
        let lowers = |parent: &Operation| {
            matches!(
                parent.kind,
                OperationKind::MembersRemove
                    | OperationKind::InstanceScale
                    | OperationKind::AllocationRelease
            )
        };
        accepted = tx.operation_now(parent).await?.filter(lowers);
    }
    let Some(accepted) = accepted else { return Ok(()) };
    let uncounted = accepted.input.uncounted.contains(&id);
    if !uncounted && !member.never_worked() {
        tx.component_change_desired(member.instance_id, &member.component_key, 1, 0).await?;
    }
    Ok(())
}

/// Detaches the successor of a superseded replacement: one that has joined counts for itself, and one being added is
/// cancelled. The desired count is adjusted, because a replacement left it unchanged.
async fn leave_successor(
    tx: &mut Tx,
    env: &Env,
    replace: &Operation,
    new: &Operation,
    now: Timestamp,
) -> Result<()> {
    let Some(id) = successor_of(replace) else { return Ok(()) };
    let Some(successor) = tx.member_now(id).await? else { return Ok(()) };
    // A newer replacement continues with the same successor.
    if adopts(new, id) {
        return Ok(());
    }
    let on_old = tx.operation_open_on_now(replace.subject_id).await?;
    let removal = on_old
        .iter()
        .any(|other| other.parent_id == Some(replace.id) && other.kind == OperationKind::MemberRemove);
    let works = has_come(replace, &successor);
    let old = tx.member_now(MemberId::from_uuid(replace.subject_id)).await?;
    // The successor of a member that never worked was counted in addition from the start.
    let beside = !removal && old.is_some_and(|old| old.never_worked());
    let more = wants_more(new.kind, works, removal) - i64::from(beside);
    if more != 0 {
        tx.component_change_desired(successor.instance_id, &successor.component_key, more, 0).await?;
    }
    let open = tx.operation_open_on_now(id.uuid()).await?;
    let mut coming = open.len();
    for add in open {
        if add.parent_id == Some(replace.id) && !child::cancel(tx, add.id, now).await? {
            coming -= 1;
        }
    }
    // An open operation on it releases its reservation at its end.
    if coming > 0 || works {
        return Ok(());
    }
    // An add that has just ended may have changed its state.
    let Some(successor) = tx.member_now(id).await? else { return Ok(()) };
    let ended = matches!(successor.state, MemberState::Requested | MemberState::Failed);
    if ended && successor.active_witness_id.is_none() {
        release_reserved(tx, env, &successor, replace, &Timing::default(), now).await?;
    }
    let Some(successor) = tx.member_now(id).await? else { return Ok(()) };
    if successor.state == MemberState::Requested {
        let after = Member {
            state: MemberState::Failed,
            failure_reason: Some(MemberFailure::Cancelled),
            message: Some(format!("{} is no longer replaced by it", replace.subject_name)),
            ..successor.clone()
        };
        tx.member_move(&successor, &after, now).await?;
    }
    Ok(())
}

/// Returns the successor of a replacement.
pub fn successor_of(replace: &Operation) -> Option<MemberId> {
    replace.input.successor
}

/// Reports whether a successor has joined, so that it counts for itself: it is still there, or a command of its own removed
/// it. One that its replacement removes again, rolling back, does not count.
pub fn has_come(replace: &Operation, successor: &Member) -> bool {
    let leaves = matches!(successor.state, MemberState::Removing | MemberState::Removed);
    let undoing = |step: &StepRecord| matches!(step.state, StepState::Undoing | StepState::Undone);
    let rolls_back = replace.state == OperationState::Compensating || replace.steps.iter().any(undoing);
    successor.active_witness_id.is_some() && !(leaves && rolls_back)
}

/// Reports whether an operation continues with this successor.
fn adopts(new: &Operation, successor: MemberId) -> bool {
    new.input.successors().any(|id| id == successor)
}

/// Returns the change of a component's desired count when a replacement is superseded. A removal wants one fewer, unless the
/// member's removal was already open; a newer replacement wants the same count.
fn wants_more(new_kind: OperationKind, successor_works: bool, removal_under_way: bool) -> i64 {
    match (new_kind, successor_works, removal_under_way) {
        (OperationKind::MemberRemove, true, true) => 0,
        (OperationKind::MemberRemove, false, true) => -1,
        (_, true, _) => 1,
        (_, false, _) => 0,
    }
}
