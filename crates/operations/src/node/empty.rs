//! Wait until nothing is left on the node. Its owners release what they hold; at the deadline, and only if the operator said
//! so, the platform does.

use futures::future::BoxFuture;
use muster_ids::{AllocationId, OperationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::event::EventType;
use muster_model::operation::{Item, ItemState, Operation, OperationState};
use muster_store::Result;
use serde_json::json;

use super::subject;
use crate::allocation::{open_release, path};
use crate::definition::{Step, StepCx, Undo};
use crate::{Act, Verdict};

pub(super) const EMPTY: Step = Step {
    name: "empty",
    does: "waits until nothing is left on the node, and releases it at the deadline if that was asked for",
    verifies: true,
    run,
    undo: Undo::None("what its owners released stays released"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let node = subject(cx).await?;
        let living = cx.store.allocation_live_on(node.id).await?;
        let mut open = Vec::new();
        for allocation in &living {
            open.push(cx.store.operation_open_on(allocation.id.uuid()).await?.pop());
        }
        let items = items(&cx.operation.items, &living, &open);
        let (now, look) = (cx.now, cx.timing.look);
        if living.is_empty() {
            return Ok(Act::write(move |tx, told| {
                Box::pin(async move {
                    // Empty it stays: it is cordoned until an operator says otherwise.
                    tx.node_set_draining(node.id, false, true, now).await?;
                    told.items = Some(items);
                    let data = json!({"name": node.name});
                    told.events.push((EventType::NodeDrained, format!("/v1/nodes/{}", node.id), data));
                    Ok(Verdict::said("nothing is left on it"))
                })
            }));
        }
        let left = living.len();
        let force = cx.operation.input["force"] == json!(true);
        if now < cx.operation.deadline_at {
            return Ok(Act::write(move |_, told| {
                Box::pin(async move {
                    told.items = Some(items);
                    let reason = format!("{left} allocations are still on it");
                    Ok(Verdict::Wait { reason, until: now + look })
                })
            }));
        }
        let too_long = now >= cx.operation.deadline_at + cx.timing.release;
        if !force || too_long {
            let message = format!("its deadline has passed and {left} allocations are still on it");
            return Ok(Act::write(move |_, told| {
                Box::pin(async move {
                    told.items = Some(items);
                    Ok(Verdict::Refused { reason: "deadline_passed", message })
                })
            }));
        }
        let releasing = |operation: &Option<Operation>| {
            operation.as_ref().is_some_and(|operation| operation.kind == "allocation.release")
        };
        let due: Vec<(Allocation, Option<Operation>, OperationId)> = living
            .into_iter()
            .zip(open)
            .filter(|(_, operation)| !releasing(operation))
            .map(|(allocation, operation)| (allocation, operation, cx.world.id()))
            .collect();
        let (parent, timing) = (cx.operation.clone(), *cx.timing);
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                for (allocation, open, id) in due {
                    open_release(tx, &allocation, open, id, &parent, &timing, now).await?;
                    let data = json!({"kind": "allocation.release", "release_id": id, "name": allocation.name,
                                      "reason": "the node is being emptied"});
                    told.events.push((EventType::OperationAccepted, path(&allocation), data));
                }
                told.items = Some(items);
                let reason = format!("its deadline has passed: {left} allocations are being released");
                Ok(Verdict::Wait { reason, until: now + look })
            })
        }))
    })
}

/// The parts of the emptying: pure. What was on the node and is not any more has succeeded.
fn items(before: &[Item], living: &[Allocation], open: &[Option<Operation>]) -> Vec<Item> {
    let mut items: Vec<Item> = before.to_vec();
    // Members that were moved are items too, and say for themselves how that went.
    for item in items.iter_mut().filter(|item| item.id.parse::<AllocationId>().is_ok()) {
        if !living.iter().any(|allocation| allocation.id.to_string() == item.id) {
            item.state = ItemState::Succeeded;
            item.message = None;
        }
    }
    for (allocation, operation) in living.iter().zip(open) {
        let item = Item {
            id: allocation.id.to_string(),
            name: allocation.name.clone(),
            state: match operation.as_ref().map(|operation| operation.state) {
                None => ItemState::Pending,
                Some(OperationState::Parked) => ItemState::Parked,
                Some(_) => ItemState::Running,
            },
            operation_id: operation.as_ref().map(|operation| operation.id),
            message: operation.as_ref().and_then(|operation| {
                let parked = operation.parked.as_ref().map(|parked| parked.reason.clone());
                parked.or_else(|| operation.waiting.clone())
            }),
        };
        match items.iter_mut().find(|known| known.id == item.id) {
            Some(known) => *known = item,
            None => items.push(item),
        }
    }
    items
}
