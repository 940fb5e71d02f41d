//! Provisions the allocation's sandbox on the node. The undo destroys it, wipes its resources, and records evidence of both.
//!
//! A node may fall silent between the claim and the delivery of the task. While the task is undelivered, the node certainly
//! did nothing: the task is withdrawn and the claim moves to another node, in one transaction. Once it is delivered, the
//! claim stays and waits with the reason: two claims that may both be live are never held.

use jiff::{SignedDuration, Timestamp};
use muster_db::{Result, StoreError, Tx};
use muster_ids::NodeId;
use muster_model::allocation::{Allocation, AllocationShape, AllocationState, FailureReason};
use muster_model::event::EventType;
use muster_model::node::{Capacity, Node};
use muster_model::task::{Task, TaskKind, TaskState};
use muster_model::witness::Transition;
use serde_json::json;

use super::claim::short;
use super::subject::{
    ask_node, attested, destroy_act, evidence, inspect_act, on_word, path, prepare_act, subject, wipe_act,
};
use crate::definition::{Step, StepCx, Undo};
use crate::placement::{ask_of, place};
use crate::task::{Asked, never_delivered, silence};
use crate::{StepAction, StepOutcome};

const NAME: &str = "prepare";

pub(super) const PREPARE: Step = Step {
    name: NAME,
    does: "provision on the node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let Some(node) = allocation.node_id else {
        return Ok(refused("it has no node".to_owned()).into());
    };
    Ok(match ask_node(cx, &allocation, node, prepare_act, "prepare").await? {
        // The task is queued and has no result yet.
        Asked::Pending(act @ StepAction::Return(_)) => {
            leave_silent_node(cx, &allocation, node).await?.unwrap_or(act)
        }
        Asked::Pending(act) => act,
        Asked::Done(..) => StepOutcome::with(json!({"incarnation": allocation.incarnation})).into(),
        Asked::Failed(why) => refused(why).into(),
    })
}

fn refused(message: String) -> StepOutcome {
    StepOutcome::Refused { reason: FailureReason::PrepareFailed.as_str(), message }
}

/// Returns an alternative to waiting if the node is silent and certainly did nothing.
async fn leave_silent_node(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    node: NodeId,
) -> Result<Option<StepAction>> {
    let tasks = cx.store.task_list(cx.operation.id).await?;
    let Some(latest) = tasks.iter().rfind(|task| task.node_id == node && task.state == TaskState::Queued)
    else {
        return Ok(None);
    };
    if !never_delivered(&tasks, NAME) {
        return Ok(None);
    }
    let Some(node) = cx.store.node_lookup(node).await? else { return Ok(None) };
    let Some(silence) = silence(cx, &node) else { return Ok(None) };
    // A bare-metal allocation waits for this node: another node may be larger than the quota allows.
    let can_move = allocation.shape != AllocationShape::Baremetal;
    let fits = if can_move { cx.store.fits().await? } else { Vec::new() };
    let leave = Leave { allocation: allocation.clone(), node, task: latest.clone(), silence };
    let (env, now, look) = (cx.env.clone(), cx.now, cx.timing.look);
    let heard_since = cx.timing.heard_since(now);
    Ok(Some(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            let ask = ask_of(&leave.allocation);
            let has_room =
                can_move && tx.node_with_room(&ask, &leave.allocation.capacity, heard_since).await?.is_some();
            if !has_room {
                return leave.wait_or_fail(tx, heard_since, now, look).await;
            }
            if !leave.take_back(tx, now).await? {
                return Ok(StepOutcome::Wait { reason: leave.silence, until: now + look });
            }
            // In state `Placing` it waits for no lock while it holds one; a failure rolls all of this back.
            let placing = Allocation {
                state: AllocationState::Placing,
                node_id: None,
                held: Capacity::default(),
                ..leave.allocation.clone()
            };
            let placed = place(tx, &env, &placing, &fits, heard_since, now).await?;
            let taken = || {
                StoreError::Conflict(
                    "concurrent requests claimed the free capacity of the other nodes".to_owned(),
                )
            };
            let placed = placed.ok_or_else(taken)?;
            let after = Allocation {
                node_id: Some(placed.node),
                incarnation: leave.allocation.incarnation + 1,
                held: placed.held,
                ..leave.allocation.clone()
            };
            tx.allocation_move(&leave.allocation, &after, now).await?;
            let data =
                json!({"node_id": placed.node, "gpus": placed.slots.len(), "left_node_id": leave.node.id});
            effects.events.push((EventType::AllocationPlaced, path(&after), data));
            Ok(StepOutcome::Wait { reason: format!("{}; moved to another node", leave.silence), until: now })
        })
    })))
}

/// A silent node that certainly did nothing, and the claim on it.
struct Leave {
    allocation: Allocation,
    node: Node,
    task: Task,
    silence: String,
}

impl Leave {
    /// Withdraws the task and releases the claim on the node; `false`, with nothing changed, if an agent received the task.
    async fn take_back(&self, tx: &mut Tx, now: Timestamp) -> Result<bool> {
        tx.node_lock(self.node.id).await?;
        if !tx.task_withdraw(self.task.id, now).await? {
            return Ok(false);
        }
        tx.unhold(self.node.id, self.allocation.id, &self.allocation.held, now).await?;
        tx.node_recount(self.node.id).await?;
        Ok(true)
    }

    /// No other node has room: waits for this one until it is declared lost and the allocation's wait has expired.
    async fn wait_or_fail(
        self,
        tx: &mut Tx,
        heard_since: Timestamp,
        now: Timestamp,
        look: SignedDuration,
    ) -> Result<StepOutcome> {
        let may_wait = self.allocation.wait_until.is_some_and(|until| now < until);
        if self.node.unreachable_since.is_none() || may_wait || !tx.task_withdraw(self.task.id, now).await? {
            return Ok(StepOutcome::Wait { reason: self.silence, until: now + look });
        }
        let short = short(tx, &self.allocation, heard_since, false).await?;
        let message = format!("{}; on the other nodes: {short}", self.silence);
        Ok(StepOutcome::Refused { reason: FailureReason::NodeUnreachable.as_str(), message })
    }
}

/// Same order as a release: destroy, verify, wipe, verify. The slots are not released before that.
async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let Some(node) = allocation.node_id.filter(|_| allocation.held != Capacity::default()) else {
        return Ok(StepOutcome::with_message("no sandbox was created").into());
    };
    if let Some(word) = attested(cx, &allocation).await? {
        return Ok(on_word(&word).into());
    }
    if let Some(act) = withdraw(cx).await? {
        return Ok(act);
    }
    match ask_node(cx, &allocation, node, destroy_act, "undo destroy").await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(..) => {}
        Asked::Failed(why) => return Ok(unwiped(format!("destroy failed: {why}")).into()),
    }
    match ask_node(cx, &allocation, node, wipe_act, "undo wipe").await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(..) => {}
        Asked::Failed(why) => return Ok(unwiped(format!("wipe failed: {why}")).into()),
    }
    let (task, found) = match ask_node(cx, &allocation, node, inspect_act, "undo inspect").await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(task, found) => (task, found),
        Asked::Failed(why) => return Ok(unwiped(format!("it could not be inspected: {why}")).into()),
    };
    if found.present || !found.residue.is_empty() {
        let why = format!("something is left: present {}, residue {:?}", found.present, found.residue);
        return Ok(unwiped(why).into());
    }
    let checked = json!(["the sandbox is gone", "its devices and disk are wiped"]);
    let witness = evidence(cx, &allocation, Transition::Wiped, &task, checked);
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            Ok(StepOutcome::Done {
                output: json!(null),
                message: Some("destroyed and wiped".to_owned()),
                witness: Some(witness.id),
            })
        })
    }))
}

/// Ends the undo if the task was never delivered: nothing was provisioned, and the unreachable node is not needed.
async fn withdraw(cx: &StepCx<'_>) -> Result<Option<StepAction>> {
    let tasks = cx.store.task_list(cx.operation.id).await?;
    let has_begun_undo = tasks.iter().any(|task| !matches!(task.kind, TaskKind::Prepare));
    if tasks.is_empty() || has_begun_undo || !never_delivered(&tasks, NAME) {
        return Ok(None);
    }
    let queued: Vec<Task> = tasks.into_iter().filter(|task| task.state == TaskState::Queued).collect();
    let now = cx.now;
    Ok(Some(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            for task in queued {
                if !tx.task_withdraw(task.id, now).await? {
                    return Err(StoreError::Conflict("the node received the task concurrently".to_owned()));
                }
            }
            Ok(StepOutcome::with_message("nothing was created: the node never received the task"))
        })
    })))
}

fn unwiped(message: String) -> StepOutcome {
    StepOutcome::Refused { reason: FailureReason::WipeFailed.as_str(), message }
}
