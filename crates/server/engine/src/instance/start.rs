//! Adds the members of a new instance, component by component in the order of the manifest. The undo removes them.
//!
//! Slow, independent work runs for all members in parallel: where possible, a member's allocation and cell are created
//! before the components ahead of its own are active. It joins once they are, and never before (`member/join.rs`).

use muster_db::{Result, StoreError};
use muster_ids::{MemberId, OperationId};
use muster_manifest::{AppKind, Manifest};
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceState};
use muster_model::member::{Member, MemberState};
use muster_model::operation::{Item, ItemState};
use muster_model::operation_input::OperationInput;
use muster_wire::cell::Start;
use serde_json::json;

use super::shrink::{among_all, ended};
use super::subject::{order, path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather};
use crate::member::{ADD, REMOVE, manifest_of};
use crate::{StepAction, StepOutcome};

pub(super) const START: Step = Step {
    name: "start",
    does: "add the members, component by component",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

const AT_ONCE: usize = 64;

async fn members(cx: &StepCx<'_>) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for item in &cx.operation.items {
        let id: MemberId = item.id.parse().map_err(|_| StoreError::Corrupt("a member of an operation"))?;
        members.push(cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?);
    }
    Ok(members)
}

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let instance = subject(cx).await?;
    if instance.state == InstanceState::Created {
        let now = cx.now;
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let after = Instance { state: InstanceState::Starting, ..instance.clone() };
                tx.instance_move(&instance, &after, now).await?;
                effects.events.push((
                    EventType::InstanceStarting,
                    path(&after),
                    json!({"name": instance.name}),
                ));
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    let manifest = manifest_of(cx, instance.app_version_id).await?;
    let members = members(cx).await?;
    // The first unfinished wave: later ones wait for it, at the latest before they join.
    let through = |item_of: &Member| {
        let item = cx.operation.items.iter().find(|item| item.id == item_of.id.to_string());
        item.is_some_and(|item| matches!(item.state, ItemState::Succeeded | ItemState::Failed))
    };
    let wave = members.iter().filter(|member| !through(member)).map(|member| order(&manifest, member)).min();
    let plan = |member: Member| Planned { member, definition: &ADD, input: adding_in_order(cx) };
    let (now_due, later): (Vec<Member>, Vec<Member>) =
        members.into_iter().partition(|member| wave.is_none_or(|wave| order(&manifest, member) <= wave));
    let next = later.iter().map(|member| order(&manifest, member)).min();
    let follows = |member: &&Member| Some(order(&manifest, member)) == next;
    let following: Vec<String> = later.iter().filter(follows).map(|member| member.id.to_string()).collect();
    let early: Vec<Planned> =
        later.into_iter().filter(|member| can_be_made_early(&manifest, member)).map(plan).collect();
    let planned: Vec<Planned> = now_due.into_iter().map(plan).collect();
    let (items, succeeded) = match gather(cx, planned, AT_ONCE, TakesOver::Nothing).await? {
        Gathered::Pending(act) => {
            let acts = match gather(cx, early, AT_ONCE, TakesOver::Nothing).await? {
                Gathered::Pending(meanwhile) => vec![among_all(cx, act), among_all(cx, meanwhile)],
                // There are none, or none could be added, which is reported in their own wave.
                Gathered::Ended(..) => vec![among_all(cx, act)],
            };
            return Ok(StepAction::combine(acts).unwrap_or_else(|| StepOutcome::done().into()));
        }
        Gathered::Ended(items, succeeded) => (items, succeeded),
    };
    // Fail if a component's members could not be added: later components would not work either.
    if succeeded < items.len() {
        let message = failures(&items);
        return Ok(ended(cx, items, StepOutcome::Refused { reason: "below_minimum", message }));
    }
    if next.is_none() {
        return Ok(ended(cx, items, StepOutcome::with_message("all of its members are active")));
    }
    let outcome = StepOutcome::Wait { reason: "the next components follow".to_owned(), until: cx.now };
    Ok(waking(cx, &following, ended(cx, items, outcome)))
}

/// Wakes the operations of these members, which wait for this action.
fn waking(cx: &StepCx<'_>, members: &[String], act: StepAction) -> StepAction {
    let waits = |item: &&Item| members.contains(&item.id);
    let children: Vec<OperationId> =
        cx.operation.items.iter().filter(waits).filter_map(|item| item.operation_id).collect();
    let now = cx.now;
    let wakes = StepAction::commit(move |tx, _| {
        Box::pin(async move {
            for child in children {
                tx.operation_wake(child, now).await?;
            }
            Ok(StepOutcome::done())
        })
    });
    StepAction::combine(vec![act, wakes]).unwrap_or_else(|| StepOutcome::done().into())
}

/// Builds the input of each new member: it joins in the order of the components.
fn adding_in_order(cx: &StepCx<'_>) -> OperationInput {
    OperationInput { in_order: true, ..cx.operation.input.for_new_member() }
}

/// Reports whether a member's cell can be created before the components it depends on are active. No service then starts in
/// it and no secret is needed: all of that comes with the adapter's join.
fn can_be_made_early(manifest: &Manifest, member: &Member) -> bool {
    manifest.artifact_kind != AppKind::Launchable
        && manifest.component(&member.component_key).is_some_and(|component| {
            let runtime = &component.runtime;
            runtime.secrets.is_empty()
                && runtime.services.iter().all(|service| service.start == Start::OnRequest)
        })
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let mut planned: Vec<Planned> = Vec::new();
    for member in members(cx).await? {
        if member.state != MemberState::Removed {
            planned.push(Planned { member, definition: &REMOVE, input: OperationInput::forced(true) });
        }
    }
    if planned.is_empty() {
        return Ok(StepOutcome::with_message("none of its members is left").into());
    }
    Ok(match gather(cx, planned, AT_ONCE, TakesOver::All).await? {
        Gathered::Pending(act) => without_items(act),
        Gathered::Ended(items, succeeded) if items.len() == succeeded => {
            StepOutcome::with_message("its members are removed").into()
        }
        Gathered::Ended(items, _) => {
            StepOutcome::Refused { reason: "below_minimum", message: failures(&items) }.into()
        }
    })
}

/// An undo has items of its own, which must not replace those of the request.
fn without_items(act: StepAction) -> StepAction {
    match act {
        StepAction::Return(outcome) => StepAction::Return(outcome),
        StepAction::Commit(write) => StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let outcome = write(tx, effects).await?;
                effects.items = None;
                Ok(outcome)
            })
        }),
    }
}
