//! Replaces one member with another: the new one is added and the old one removed, in the order that the component declares.
//! A fenced old member is never waited for: its removal continues on its own until its node returns or an operator attests.

use muster_db::{Result, StoreError};
use muster_ids::TypedId as _;
use muster_manifest::ReplaceOrder;
use muster_model::event::Timeline;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{OperationKind, OperationState};
use muster_model::operation_input::OperationInput;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::add::{ADD, fail_unstarted};
use super::fence::{cut_off, let_in};
use super::remove::REMOVE;
use super::subject::{instance, manifest_of, refused, running_version, subject};
use crate::child::{self, ChildRequest};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::component;
use crate::step_outcome::recorded;
use crate::{StepAction, StepOutcome, supersede};

pub(super) const SWAP_BEGIN: Step = Step {
    name: "swap_begin",
    does: "start the new member or remove the old, by replace_order",
    verifies: false,
    run: |cx| Box::pin(first(cx)),
    undo: Undo::Run(|cx| Box::pin(undo_first(cx))),
};

pub(super) const SWAP_FINISH: Step = Step {
    name: "swap_finish",
    does: "remove the old member or start the new",
    verifies: false,
    run: |cx| Box::pin(second(cx)),
    undo: Undo::None("active members stay, and removed ones are not restored"),
};

async fn new_first(cx: &StepCx<'_>, old: &Member) -> Result<bool> {
    if old.fenced {
        return Ok(true);
    }
    let instance = instance(cx, old).await?;
    let manifest = manifest_of(cx, running_version(old, &instance)).await?;
    Ok(component(&manifest, old)?.replace_order == ReplaceOrder::NewFirst)
}

pub(super) async fn successor(cx: &StepCx<'_>) -> Result<Member> {
    let id = cx.operation.input.successor.ok_or(StoreError::Corrupt("a successor"))?;
    cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))
}

/// The half of a replacement that a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Half {
    Come,
    Go,
}

/// Output of the first half.
#[derive(Debug, Serialize, Deserialize)]
struct FirstHalf {
    done: Half,
}

impl Half {
    async fn run(self, cx: &StepCx<'_>, old: &Member) -> Result<StepAction> {
        match self {
            Self::Come => come(cx).await,
            Self::Go => go(cx, old).await,
        }
    }
}

async fn first(cx: &StepCx<'_>) -> Result<StepAction> {
    let old = subject(cx).await?;
    // Keep the order once begun: neither a recovered node nor a new release reverses it.
    let half = match (child::ever(cx, "add").await?, child::ever(cx, "remove").await?) {
        (true, _) => Half::Come,
        (_, true) => Half::Go,
        (false, false) => {
            let goes = matches!(old.state, MemberState::Removing | MemberState::Removed);
            if goes && cx.operation.input.inherited.is_none() {
                let why = format!("{} is {} by another operation: it is not replaced", old.name, old.state);
                return Ok(refused(MemberFailure::Cancelled, why).into());
            }
            match new_first(cx, &old).await? {
                true => Half::Come,
                false if cx.operation.input.successor_first => {
                    let why = format!(
                        "{} would stop before {} starts, which this operation does not allow",
                        old.name,
                        successor(cx).await?.name
                    );
                    return Ok(refused(MemberFailure::Cancelled, why).into());
                }
                false => Half::Go,
            }
        }
    };
    Ok(match half.run(cx, &old).await? {
        StepAction::Return(StepOutcome::Done { message, witness, .. }) => {
            StepOutcome::Done { output: json!(FirstHalf { done: half }), message, witness }.into()
        }
        act => act,
    })
}

async fn second(cx: &StepCx<'_>) -> Result<StepAction> {
    let old = subject(cx).await?;
    // The second half follows from the recorded first half, whatever has happened to the new member since.
    let half = match recorded(cx.operation, &SWAP_BEGIN)? {
        Some(FirstHalf { done: Half::Go }) => Half::Come,
        _ => Half::Go,
    };
    half.run(cx, &old).await
}

async fn come(cx: &StepCx<'_>) -> Result<StepAction> {
    let new = successor(cx).await?;
    if let Some(child) = child::standing(cx, "add").await? {
        return Ok(match child.state {
            OperationState::Succeeded => StepOutcome::with_message(format!("{} works", new.name)).into(),
            state if !state.is_final() => child::wait(cx, &child),
            _ => refused(MemberFailure::ProvisionFailed, child::why(&child)).into(),
        });
    }
    if new.state == MemberState::Active {
        return Ok(StepOutcome::with_message(format!("{} works", new.name)).into());
    }
    let replaces = Some(cx.operation.subject_name.clone());
    let input = OperationInput { replaces, ..cx.operation.input.for_new_member() };
    let opened = child::make(cx, "add", child_request(cx, &ADD, &new, input));
    let (now, look) = (cx.now, cx.timing.look);
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.operation_open(&opened).await?;
            Ok(StepOutcome::Wait { reason: format!("{} replaces it", new.name), until: now + look })
        })
    }))
}

async fn go(cx: &StepCx<'_>, old: &Member) -> Result<StepAction> {
    let fenced = old.fenced;
    if old.state == MemberState::Removed {
        return Ok(StepOutcome::with_message(format!("{} is removed", old.name)).into());
    }
    if let Some(child) = child::find(cx, "remove").await? {
        return Ok(match child.state {
            OperationState::Succeeded => StepOutcome::with_message(format!("{} is removed", old.name)).into(),
            _ if fenced => {
                let says =
                    format!("{} is fenced, and {} removes it when its node is reachable", old.name, child.id);
                StepOutcome::with_message(says).into()
            }
            state if !state.is_final() => child::wait(cx, &child),
            _ => refused(MemberFailure::ProvisionFailed, child::why(&child)).into(),
        });
    }
    let forced = fenced || cx.operation.input.force;
    let mut opened =
        child::make(cx, "remove", child_request(cx, &REMOVE, old, OperationInput::forced(forced)));
    opened.deadline_at = cx.now + cx.timing.release;
    // This operation holds the lock on the member; its child works under it.
    opened.exclusive_locks.clear();
    let under_way = cx.store.operation_open_on(old.id.uuid()).await?;
    let under_way = under_way.into_iter().find(|other| other.kind == OperationKind::MemberRemove);
    let (now, look, name, env) = (cx.now, cx.timing.look, old.name.clone(), cx.env.clone());
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            if let Some(under_way) = under_way {
                supersede(tx, &env, &under_way, &mut opened, now).await?;
            }
            tx.operation_open(&opened).await?;
            Ok(StepOutcome::Wait { reason: format!("{name} is being removed"), until: now + look })
        })
    }))
}

fn child_request<'p>(
    cx: &StepCx<'_>,
    definition: &'p crate::Definition,
    member: &Member,
    input: OperationInput,
) -> ChildRequest<'p> {
    ChildRequest {
        definition,
        subject_kind: "member",
        subject_id: member.id.uuid(),
        subject_name: member.name.clone(),
        timeline: Timeline::of_member(member),
        input,
        deadline_at: cx.operation.deadline_at,
    }
}

/// Removes the new member if it was added first; a failed add has already cleaned up.
async fn undo_first(cx: &StepCx<'_>) -> Result<StepAction> {
    let new = successor(cx).await?;
    if child::ever(cx, "remove").await? {
        return undo_removal(cx).await;
    }
    if let Some(child) = child::standing(cx, "add").await?.filter(|child| !child.state.is_final()) {
        let (now, look) = (cx.now, cx.timing.look);
        return Ok(StepAction::commit(move |tx, _| {
            Box::pin(async move {
                child::cancel(tx, child.id, now).await?;
                Ok(StepOutcome::Wait {
                    reason: format!("waiting until {} has ended", child.id),
                    until: now + look,
                })
            })
        }));
    }
    if matches!(new.state, MemberState::Removed | MemberState::Failed | MemberState::Requested) {
        return Ok(StepOutcome::with_message(format!("{} is {}", new.name, new.state)).into());
    }
    if let Some(child) = child::find(cx, "undo remove").await? {
        return Ok(match child.state {
            OperationState::Succeeded => StepOutcome::with_message(format!("{} is removed", new.name)).into(),
            state if !state.is_final() => child::wait(cx, &child),
            _ => refused(MemberFailure::ProvisionFailed, child::why(&child)).into(),
        });
    }
    let opened =
        child::make(cx, "undo remove", child_request(cx, &REMOVE, &new, OperationInput::forced(true)));
    let (now, look, name) = (cx.now, cx.timing.look, new.name);
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.operation_open(&opened).await?;
            Ok(StepOutcome::Wait { reason: format!("{name} is being removed"), until: now + look })
        })
    }))
}

/// The old member was removed first and is not restored: the operation ends as a removal, with a desired count of one less.
async fn undo_removal(cx: &StepCx<'_>) -> Result<StepAction> {
    let old = subject(cx).await?;
    if old.state != MemberState::Removed {
        let reason = format!("waiting until {} is removed", old.name);
        return Ok(StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into());
    }
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.component_change_desired(old.instance_id, &old.component_key, -1, 0).await?;
            Ok(StepOutcome::with_message(format!("{} is removed and is not restored", old.name)))
        })
    }))
}

/// Reports whether a new member has been added and counts towards the desired number.
pub(crate) fn is_survivor(new: &Member) -> bool {
    match new.state {
        MemberState::Requested | MemberState::Removing | MemberState::Removed => false,
        _ => !new.never_worked(),
    }
}

/// Fails a new member that was never started, and unfences the old one if it stays.
pub(super) async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    if state == OperationState::Succeeded {
        return Ok(StepOutcome::done().into());
    }
    let (new, old) = (successor(cx).await?, subject(cx).await?);
    let cut_off = cut_off(cx, &old).await?;
    // The parent does the counting for its children.
    let counted = cx.operation.parent_id.is_none() && old.never_worked() && !is_survivor(&new);
    let (now, message) = (cx.now, cx.operation.message.clone());
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            if counted {
                tx.component_change_desired(old.instance_id, &old.component_key, -1, 0).await?;
            }
            if let Some(cell) = cut_off {
                let_in(tx, effects, &old, &cell, now).await?;
            }
            if new.state == MemberState::Requested {
                fail_unstarted(tx, effects, new, state, message, now).await?;
            }
            Ok(StepOutcome::done())
        })
    }))
}
