//! Stops every cell in an allocation for a restart in the same operation: drains members, keeps logs, destroys the cells
//! without their state directories, and verifies that. The undo starts them again.

use muster_db::{OperationChild, Result};
use muster_ids::{CellId, MemberId, TypedId as _};
use muster_model::allocation::{Allocation, FailureReason};
use muster_model::cell::{Cell, CellState};
use muster_model::event::EventType;
use muster_model::member::{Member, MemberState};
use muster_model::operation::{OperationKind, OperationState};
use muster_model::operation_input::OperationInput;
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_wire::task::Findings;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::remove_members::without_items;
use super::start_cells::{start_again, update_order};
use super::subject::subject;
use crate::cell::{RESTART, destroy_act, inspect_act, keep, keep_logs_act, order, path, seen};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather_sharing};
use crate::member::{DRAIN, RECOVER};
use crate::step_outcome::recorded;
use crate::task::{Ask, Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const STOP_CELLS: Step = Step {
    name: "stop_cells",
    does: "drain the members, stop all cells and verify; state stays",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

/// The stopped cells and members, for the step that restarts them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Stopped {
    /// The cells.
    pub(super) cells: Vec<CellId>,
    /// Members that were drained before: they are drained again.
    pub(super) rested: Vec<MemberId>,
}

/// Returns the stopped cells and members from the journal.
pub(super) fn stopped(cx: &StepCx<'_>) -> Result<Option<Stopped>> {
    recorded(cx.operation, &STOP_CELLS)
}

/// A cell to stop and restart, with its member if it has one.
pub(super) struct Occupied {
    pub(super) cell: Cell,
    pub(super) member: Option<Member>,
}

/// Returns the living cells in an allocation.
pub(super) async fn occupied(cx: &StepCx<'_>, allocation: &Allocation) -> Result<Vec<Occupied>> {
    let mut found = Vec::new();
    for cell in cx.store.cell_live_in(allocation.id).await? {
        let member = match cell.member_id {
            Some(id) => cx.store.member_lookup(id).await?,
            None => None,
        };
        found.push(Occupied { cell, member });
    }
    Ok(found)
}

/// A resize restarts cells only if requested, for a change of GPUs.
fn is_asked_for(cx: &StepCx<'_>) -> bool {
    cx.operation.kind == OperationKind::AllocationRestart || cx.operation.input.restart
}

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    if !is_asked_for(cx) {
        return Ok(StepOutcome::with_message("no cell needs a restart").into());
    }
    let allocation = subject(cx).await?;
    let all = occupied(cx, &allocation).await?;
    if all.is_empty() {
        return Ok(StepOutcome::with_message("it holds no cells").into());
    }
    if let Some(reason) = in_the_way(cx, &all).await? {
        return Ok(StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into());
    }
    if let Some(act) = drain(cx, &all).await? {
        return Ok(act);
    }
    let mine =
        |cell: &Cell| cell.state == CellState::Destroying && cell.operation_id == Some(cx.operation.id);
    let due: Vec<Cell> = all.iter().filter(|of| !mine(&of.cell)).map(|of| of.cell.clone()).collect();
    if !due.is_empty() {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                for cell in due {
                    let state = CellState::Destroying;
                    let after = Cell { state, operation_id: Some(operation_id), ..cell.clone() };
                    tx.cell_move(&cell, &after, now).await?;
                    effects.events.push((EventType::CellDestroying, path(&after), json!({})));
                }
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    destroy_cell(cx, &allocation, all).await
}

/// Returns the reason to wait before anything is stopped, if any.
async fn in_the_way(cx: &StepCx<'_>, all: &[Occupied]) -> Result<Option<String>> {
    for Occupied { cell, member } in all {
        if let Some(member) = member.as_ref().filter(|member| member.state == MemberState::Removing) {
            return Ok(Some(format!("waiting until {} is removed", member.name)));
        }
        // A blocked operation is superseded when the cell is restarted.
        let open = cx.store.operation_open_on(cell.id.uuid()).await?;
        if let Some(other) = open.iter().find(|other| other.state != OperationState::Blocked) {
            return Ok(Some(format!("{} of {} is in progress ({})", other.kind, cell.name, other.id)));
        }
    }
    Ok(None)
}

/// Drains the active members that can be drained, dependents first. `None` when they are drained.
async fn drain(cx: &StepCx<'_>, all: &[Occupied]) -> Result<Option<StepAction>> {
    if cx.operation.input.force {
        return Ok(None);
    }
    let children = cx.store.operation_children(cx.operation.id).await?;
    let mut due = Vec::new();
    for member in all.iter().filter_map(|of| of.member.as_ref()) {
        let (order, drains) = update_order(cx, member).await?;
        let begun =
            children.iter().any(|child| child.kind == DRAIN.kind && child.subject_id == member.id.uuid());
        if drains && (begun || matches!(member.state, MemberState::Active | MemberState::Draining)) {
            due.push((order, member.clone()));
        }
    }
    due.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
    let is_out = |member: &Member| !matches!(member.state, MemberState::Active | MemberState::Draining);
    let Some(last) = due.iter().find(|(_, member)| !is_out(member)).map(|(order, _)| *order) else {
        return Ok(None);
    };
    let planned = due
        .into_iter()
        .filter(|(order, _)| *order >= last)
        .map(|(_, member)| Planned {
            member,
            definition: &DRAIN,
            input: OperationInput::because("its cell is restarted"),
        })
        .collect();
    Ok(Some(match gather_sharing(cx, planned, usize::MAX, TakesOver::Nothing).await? {
        Gathered::Pending(act) => without_items(act),
        Gathered::Ended(items, done) if items.len() == done => {
            let reason = "members that others depend on follow".to_owned();
            StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into()
        }
        Gathered::Ended(items, _) => {
            StepOutcome::Refused { reason: "some_failed", message: failures(&items) }.into()
        }
    }))
}

/// Keeps the logs of each cell, destroys it and verifies that it is gone; all cells in parallel.
async fn destroy_cell(cx: &StepCx<'_>, allocation: &Allocation, all: Vec<Occupied>) -> Result<StepAction> {
    let (mut pending, mut gone) = (Vec::new(), Vec::new());
    for Occupied { cell, .. } in &all {
        let purpose = |what: &str| format!("{what} {}", cell.id);
        let asks = |act, what: &str| order(cell, allocation, act, purpose(what));
        let logs = match ask(cx, &asks(keep_logs_act(cell, allocation), "keep logs")).await? {
            Asked::Pending(act) => {
                pending.push(act);
                continue;
            }
            Asked::Done(_, found) => found.logs,
            // An unreadable log does not keep its cell alive.
            Asked::Failed(_) => Vec::new(),
        };
        match ask(cx, &asks(destroy_act(cx, cell, allocation), "destroy")).await? {
            Asked::Pending(act) => {
                pending.push(act);
                continue;
            }
            Asked::Done(..) => {}
            Asked::Failed(why) => return Ok(refused(FailureReason::DestroyFailed, cell, &why)),
        }
        let wanted: Ask = asks(inspect_act(cell, allocation), "inspect");
        let (task, found) = match ask(cx, &wanted).await? {
            Asked::Pending(act) => {
                pending.push(act);
                continue;
            }
            Asked::Done(task, found) => (task, found),
            Asked::Failed(why) => return Ok(refused(FailureReason::VerifyFailed, cell, &why)),
        };
        if let Some(left) = left_of(&found) {
            return Ok(refused(FailureReason::VerifyFailed, cell, &left));
        }
        let witness = Witness {
            id: cx.env.id(),
            subject_id: cell.id.uuid(),
            transition: Transition::Destroyed,
            kind: WitnessKind::Witnessed,
            incarnation: cell.incarnation,
            operation_id: Some(cx.operation.id),
            node_id: Some(task.node_id),
            task_id: Some(task.id),
            actor_id: None,
            checked: json!(seen(&found).checked),
            result: task.result.clone().unwrap_or_else(|| json!({})),
            at: cx.now,
        };
        gone.push((cell.clone(), logs, witness));
    }
    if let Some(act) = StepAction::combine(pending) {
        return Ok(act);
    }
    let stopped =
        Stopped { cells: all.iter().map(|of| of.cell.id).collect(), rested: rested(cx, &all).await? };
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            for (cell, logs, witness) in gone {
                keep(tx, &cell, &logs, now).await?;
                tx.witness_insert(&witness).await?;
            }
            Ok(StepOutcome::with(stopped))
        })
    }))
}

/// Returns the members that were drained before this operation.
pub(super) async fn rested(cx: &StepCx<'_>, all: &[Occupied]) -> Result<Vec<MemberId>> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    let drained_here = |member: &Member| {
        children.iter().any(|child| child.kind == DRAIN.kind && child.subject_id == member.id.uuid())
    };
    let members = all.iter().filter_map(|of| of.member.as_ref());
    let rests = |member: &&Member| member.state == MemberState::Drained && !drained_here(member);
    Ok(members.filter(rests).map(|member| member.id).collect())
}

fn left_of(found: &Findings) -> Option<String> {
    let found = seen(found);
    match (found.present, found.left.is_empty()) {
        (true, _) => Some("it still runs".to_owned()),
        (false, false) => Some(found.left.join("; ")),
        (false, true) => None,
    }
}

fn refused(reason: FailureReason, cell: &Cell, why: &str) -> StepAction {
    let message = format!("the cell {} could not be stopped: {why}", cell.name);
    StepOutcome::Refused { reason: reason.as_str(), message }.into()
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let all = occupied(cx, &allocation).await?;
    let stopped = match stopped(cx)? {
        Some(stopped) => stopped,
        // It was refused half-way: restart the cells that it had begun to stop.
        None => {
            let children = cx.store.operation_children(cx.operation.id).await?;
            let begun = |of: &&Occupied| {
                let mine = of.cell.operation_id == Some(cx.operation.id);
                let started = |child: &OperationChild| {
                    child.kind == RESTART.kind && child.subject_id == of.cell.id.uuid()
                        || child.kind == RECOVER.kind
                            && of.cell.member_id.is_some_and(|id| id.uuid() == child.subject_id)
                };
                mine && of.cell.state == CellState::Destroying || children.iter().any(started)
            };
            let cells = all.iter().filter(begun).map(|of| of.cell.id).collect();
            Stopped { cells, rested: rested(cx, &all).await? }
        }
    };
    start_again(cx, &allocation, stopped).await
}
