//! Restarts the cells that the same operation stopped: standalone cells by a child restart each, members by a recovery, in
//! dependency order. Each child verifies its result.

use muster_db::{Result, StoreError};
use muster_ids::{MemberId, TypedId as _};
use muster_manifest::Verb;
use muster_model::allocation::Allocation;
use muster_model::cell::Cell;
use muster_model::event::Timeline;
use muster_model::member::{Member, MemberState};
use muster_model::operation::{ItemState, OperationState};
use muster_model::operation_input::OperationInput;

use super::remove_members::without_items;
use super::stop_cells::{Occupied, Stopped, occupied, stopped};
use super::subject::subject;
use crate::cell::RESTART;
use crate::child::{self, ChildRequest};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather_sharing};
use crate::member::{DRAIN, RECOVER, RESUME};
use crate::{Definition, StepAction, StepOutcome, supersede};

pub(super) const START_CELLS: Step = Step {
    name: "start_cells",
    does: "restart the stopped cells and rejoin their members",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("running cells are the desired state"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let Some(stopped) = stopped(cx)? else {
        return Ok(StepOutcome::with_message("no cell was stopped").into());
    };
    let allocation = subject(cx).await?;
    start_again(cx, &allocation, stopped).await
}

/// Restarts the stopped cells; members that were only drained are resumed.
pub(super) async fn start_again(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    stopped: Stopped,
) -> Result<StepAction> {
    let all = occupied(cx, allocation).await?;
    let was_stopped = |of: &&Occupied| stopped.cells.contains(&of.cell.id);
    let bare: Vec<&Cell> =
        all.iter().filter(was_stopped).filter(|of| of.member.is_none()).map(|of| &of.cell).collect();
    if let Some(act) = restart(cx, &bare).await? {
        return Ok(act);
    }
    let members: Vec<Member> = all.iter().filter(was_stopped).filter_map(|of| of.member.clone()).collect();
    if let Some(act) = recover(cx, members).await? {
        return Ok(act);
    }
    if let Some(act) = resume_step(cx, &all, &stopped).await? {
        return Ok(act);
    }
    match follow(cx, &stopped.rested, &DRAIN).await? {
        Some(act) => Ok(act),
        None => Ok(StepOutcome::with_message(format!("{} cells run again", stopped.cells.len())).into()),
    }
}

/// Restarts standalone cells. `None` when all of them run.
async fn restart(cx: &StepCx<'_>, cells: &[&Cell]) -> Result<Option<StepAction>> {
    let (mut due, mut waits) = (Vec::new(), None);
    for cell in cells {
        let purpose = format!("{} {}", RESTART.kind, cell.id);
        match child::standing(cx, &purpose).await? {
            Some(child) if child.state == OperationState::Succeeded => {}
            Some(child) if !child.state.is_final() => waits = Some(child),
            Some(child) => {
                let message = format!("{}: {}", cell.name, child::why(&child));
                return Ok(Some(StepOutcome::Refused { reason: "some_failed", message }.into()));
            }
            None => {
                let child = ChildRequest {
                    definition: &RESTART,
                    subject_kind: "cell",
                    subject_id: cell.id.uuid(),
                    subject_name: cell.name.clone(),
                    timeline: Timeline::default(),
                    input: OperationInput::default(),
                    deadline_at: cx.operation.deadline_at,
                };
                let under_way = cx.store.operation_open_on(cell.id.uuid()).await?;
                due.push((child::make(cx, &purpose, child), under_way));
            }
        }
    }
    if due.is_empty() {
        return Ok(waits.map(|child| child::wait(cx, &child)));
    }
    let (now, look, env) = (cx.now, cx.timing.look, cx.env.clone());
    Ok(Some(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let count = due.len();
            for (mut child, under_way) in due {
                for old in under_way {
                    supersede(tx, &env, &old, &mut child, now).await?;
                }
                tx.operation_open(&child).await?;
            }
            Ok(StepOutcome::Wait { reason: format!("{count} cells are being started"), until: now + look })
        })
    })))
}

/// Rejoins members, dependencies first. `None` when all have rejoined.
async fn recover(cx: &StepCx<'_>, members: Vec<Member>) -> Result<Option<StepAction>> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    let has_joined = |member: &Member| {
        let prefix = format!("{}/{} {}/", cx.step, RECOVER.kind, member.id);
        let last = children.iter().rfind(|child| child.spawn_key.starts_with(&prefix));
        last.is_some_and(|child| child.state == OperationState::Succeeded)
    };
    let mut due = Vec::new();
    for member in members {
        if has_joined(&member) || matches!(member.state, MemberState::Removing | MemberState::Removed) {
            continue;
        }
        let (order, _) = update_order(cx, &member).await?;
        due.push((order, member));
    }
    let Some(first) = due.iter().map(|(order, _)| *order).min() else { return Ok(None) };
    let due: Vec<Member> =
        due.into_iter().filter(|(order, _)| *order == first).map(|(_, member)| member).collect();
    let drained: Vec<Member> =
        due.iter().filter(|member| member.state == MemberState::Drained).cloned().collect();
    if !drained.is_empty() {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(Some(StepAction::commit(move |tx, _| {
            Box::pin(async move {
                for member in drained {
                    let state = MemberState::Provisioning;
                    let after = Member { state, operation_id: Some(operation_id), ..member.clone() };
                    tx.member_move(&member, &after, now).await?;
                }
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        })));
    }
    run_each(cx, due, &RECOVER).await
}

/// Resumes members that were drained for this and whose cells were not stopped after all.
async fn resume_step(cx: &StepCx<'_>, all: &[Occupied], stopped: &Stopped) -> Result<Option<StepAction>> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    let drained_here = |member: &Member| {
        children.iter().any(|child| child.kind == DRAIN.kind && child.subject_id == member.id.uuid())
    };
    let ids: Vec<MemberId> = all
        .iter()
        .filter(|of| !stopped.cells.contains(&of.cell.id))
        .filter_map(|of| of.member.as_ref())
        .filter(|member| drained_here(member))
        .map(|member| member.id)
        .collect();
    follow(cx, &ids, &RESUME).await
}

/// Runs a further operation on these members. `None` when it is done.
async fn follow(
    cx: &StepCx<'_>,
    ids: &[MemberId],
    definition: &'static Definition,
) -> Result<Option<StepAction>> {
    let mut members = Vec::new();
    for id in ids {
        let member = cx.store.member_lookup(*id).await?.ok_or(StoreError::Gone("member".to_owned()))?;
        if !matches!(member.state, MemberState::Removing | MemberState::Removed) {
            members.push(member);
        }
    }
    run_each(cx, members, definition).await
}

async fn run_each(
    cx: &StepCx<'_>,
    members: Vec<Member>,
    definition: &'static Definition,
) -> Result<Option<StepAction>> {
    if members.is_empty() {
        return Ok(None);
    }
    let input = OperationInput::because("its cell was restarted");
    let planned =
        members.into_iter().map(|member| Planned { member, definition, input: input.clone() }).collect();
    Ok(match gather_sharing(cx, planned, usize::MAX, TakesOver::Nothing).await? {
        Gathered::Pending(act) => Some(without_items(act)),
        Gathered::Ended(items, _) if items.iter().any(|item| item.state != ItemState::Succeeded) => {
            Some(StepOutcome::Refused { reason: "some_failed", message: failures(&items) }.into())
        }
        Gathered::Ended(..) if definition.kind == RECOVER.kind => Some(
            StepOutcome::Wait { reason: "members that depend on them follow".to_owned(), until: cx.now }
                .into(),
        ),
        Gathered::Ended(..) => None,
    })
}

/// Returns the update order of a member's component, and whether its app supports draining.
pub(super) async fn update_order(cx: &StepCx<'_>, member: &Member) -> Result<(u32, bool)> {
    let instance = cx.store.instance_lookup(member.instance_id).await?;
    let instance = instance.ok_or(StoreError::Gone("instance".to_owned()))?;
    let manifest = cx.releases.manifest(cx.store, instance.app_version_id).await?;
    let order = manifest.component(&member.component_key).map_or(0, |component| component.update_order);
    Ok((order, manifest.supports(Verb::Drain)))
}
