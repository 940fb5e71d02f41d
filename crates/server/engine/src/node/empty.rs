//! Waits until the node is empty. Owners release their allocations; at the deadline, and only if the drain is forced, the
//! platform does. A drain with open replacements is not finished, even on an empty node.

use muster_db::{OperationChild, Result};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::event::EventType;
use muster_model::operation::{Item, ItemState, Operation, OperationKind, OperationState};
use serde_json::json;

use super::move_members::{blocked, is_forced, member_items, open_moves};
use super::subject;
use crate::allocation::{is_kept, open_release, path};
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const EMPTY: Step = Step {
    name: "empty",
    does: "wait until the node is empty; release the rest at the deadline, if requested",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("released allocations stay released"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    let living = cx.store.allocation_live_on(node.id).await?;
    let mut open = Vec::new();
    for allocation in &living {
        open.push(cx.store.operation_open_on(allocation.id.uuid()).await?.pop());
    }
    let members = cx.store.member_on(node.id).await?;
    let children = cx.store.operation_children(cx.operation.id).await?;
    let members = member_items(cx, &members, &children);
    let items = items(members, &cx.operation.items, &living, &open);
    let (now, look) = (cx.now, cx.timing.look);
    let moves: Vec<&OperationChild> = open_moves(&children).collect();
    // An empty node is no success while the successor of one of its members is missing.
    if living.is_empty()
        && let Some(first) = moves.first()
    {
        let why = match first.state {
            OperationState::Blocked => blocked(first),
            _ => format!("{} ({}) has not ended", first.id, first.kind),
        };
        let message =
            format!("nothing is left on it, but {} members are not replaced yet: {why}", moves.len());
        let late = now >= cx.operation.deadline_at;
        return Ok(StepAction::commit(move |_, effects| {
            Box::pin(async move {
                effects.items = Some(items);
                Ok(match late {
                    true => StepOutcome::Refused { reason: "deadline_passed", message },
                    false => StepOutcome::Wait { reason: message, until: now + look },
                })
            })
        }));
    }
    if living.is_empty() {
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                // It stays cordoned until an operator uncordons it.
                tx.node_set_draining(node.id, false, true, now).await?;
                effects.items = Some(items);
                let data = json!({"name": node.name});
                effects.events.push((EventType::NodeDrained, format!("/v1/nodes/{}", node.id), data));
                Ok(StepOutcome::with_message("nothing is left on it"))
            })
        }));
    }
    let left = living.len();
    let force = is_forced(cx);
    if now < cx.operation.deadline_at {
        return Ok(StepAction::commit(move |_, effects| {
            Box::pin(async move {
                effects.items = Some(items);
                let reason = format!("{left} allocations are still on it");
                Ok(StepOutcome::Wait { reason, until: now + look })
            })
        }));
    }
    let too_long = now >= cx.operation.deadline_at + cx.timing.release;
    if !force || too_long {
        let message = format!("its deadline has passed and {left} allocations are still on it");
        return Ok(StepAction::commit(move |_, effects| {
            Box::pin(async move {
                effects.items = Some(items);
                Ok(StepOutcome::Refused { reason: "deadline_passed", message })
            })
        }));
    }
    let releasing = |operation: &Option<Operation>| {
        // A release that is blocked before it took effect is superseded: the new one ignores members.
        operation.as_ref().is_some_and(|operation| {
            operation.kind == OperationKind::AllocationRelease && !is_kept(operation)
        })
    };
    let due: Vec<(Allocation, Option<Operation>)> =
        living.into_iter().zip(open).filter(|(_, operation)| !releasing(operation)).collect();
    let (parent, timing, env) = (cx.operation.clone(), *cx.timing, cx.env.clone());
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            for (allocation, open) in due {
                let opened = open_release(tx, &env, &allocation, open, &parent, &timing, now).await?;
                let data = json!({"kind": "allocation.release", "release_id": opened.id, "name": allocation.name,
                                  "reason": "the node is draining"});
                effects.events.push((EventType::OperationAccepted, path(&allocation), data));
            }
            effects.items = Some(items);
            let reason = format!("its deadline has passed: {left} allocations are being released");
            Ok(StepOutcome::Wait { reason, until: now + look })
        })
    }))
}

/// Builds the items of a drain: members first, then allocations. Pure. An allocation that has left the node counts as
/// succeeded.
fn items(
    members: Vec<Item>,
    before: &[Item],
    living: &[Allocation],
    open: &[Option<Operation>],
) -> Vec<Item> {
    let mut items = members;
    // A remaining member keeps the reason from the previous step.
    for item in items.iter_mut().filter(|item| item.state == ItemState::Pending) {
        item.message =
            before.iter().find(|known| known.id == item.id).and_then(|known| known.message.clone());
    }
    for known in before.iter().filter(|item| item.id.parse::<AllocationId>().is_ok()) {
        items.push(Item { state: ItemState::Succeeded, message: None, ..known.clone() });
    }
    for (allocation, operation) in living.iter().zip(open) {
        let item = Item {
            id: allocation.id.to_string(),
            name: allocation.name.clone(),
            state: match operation.as_ref().map(|operation| operation.state) {
                None => ItemState::Pending,
                Some(OperationState::Blocked) => ItemState::Blocked,
                Some(_) => ItemState::Running,
            },
            operation_id: operation.as_ref().map(|operation| operation.id),
            message: operation.as_ref().and_then(|operation| {
                let blocked = operation.blocked.as_ref().map(|blocked| blocked.reason.clone());
                blocked.or_else(|| operation.waiting.clone())
            }),
        };
        match items.iter_mut().find(|known| known.id == item.id) {
            Some(known) => *known = item,
            None => items.push(item),
        }
    }
    items
}
