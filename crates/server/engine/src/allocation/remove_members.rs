//! Removes the members in an allocation released with its contents: each by a child operation, as many of an instance
//! concurrently as its components allow, dependencies last.

use std::collections::BTreeSet;

use muster_db::{Result, StoreError};
use muster_ids::{InstanceId, MemberId};
use muster_manifest::Component;
use muster_model::member::Member;
use muster_model::operation::{OperationState, StepState};
use muster_model::operation_input::OperationInput;

use super::ensure_releasable::{ENSURE_RELEASABLE, Uncounted};
use super::subject::{attested, on_word, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather_sharing};
use crate::member::{REMOVE, VERIFY_WITHDRAWN};
use crate::step_outcome::recorded;
use crate::{StepAction, StepOutcome};

pub(super) const REMOVE_MEMBERS: Step = Step {
    name: "remove_members",
    does: "remove its members, if the release cascades",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("removed members are not restored"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let mut members = named(cx).await?;
    if members.is_empty() {
        return Ok(StepOutcome::with_message("it has no members that stay").into());
    }
    if let Some(word) = attested(cx, &allocation).await? {
        return Ok(on_word(&word).into());
    }
    if node_is_lost(cx, allocation.node_id).await? && all_withdrawn(cx, &members).await? {
        return Ok(StepOutcome::with_message(
            "its node is unreachable: no other member depends on its members any more",
        )
        .into());
    }
    let mut pace = usize::MAX;
    let mut orders = Vec::new();
    for member in &members {
        let component = component_of(cx, member).await?;
        let at_once = component.as_ref().map_or(1, |component| component.drain_pace.at_once);
        pace = pace.min(usize::try_from(at_once).unwrap_or(1).max(1));
        orders.push((member.id, component.map_or(0, |component| component.update_order)));
    }
    // Components with a higher order depend on those with a lower one.
    let order_of = |id: MemberId| orders.iter().find(|(of, _)| *of == id).map_or(0, |(_, order)| *order);
    members.sort_by_key(|member| std::cmp::Reverse(order_of(member.id)));
    let members = of_this_turn(cx, members, order_of).await?;
    let force = cx.operation.input.force;
    let takes_over = if force { TakesOver::All } else { TakesOver::Nothing };
    let input = OperationInput { force, ..OperationInput::because("its allocation is being released") };
    let planned = |member: Member| Planned { member, definition: &REMOVE, input: input.clone() };
    let (all, planned) = (orders.len(), members.into_iter().map(planned).collect::<Vec<_>>());
    Ok(match gather_sharing(cx, planned, pace, takes_over).await? {
        Gathered::Pending(act) => without_items(act),
        Gathered::Ended(items, done) if items.len() < all && items.len() == done => {
            let reason = "members that others depend on follow".to_owned();
            StepOutcome::Wait { reason, until: cx.now }.into()
        }
        Gathered::Ended(items, done) if items.len() == done => {
            StepOutcome::with_message(format!("{done} members are removed")).into()
        }
        Gathered::Ended(items, _) => {
            StepOutcome::Refused { reason: "some_failed", message: failures(&items) }.into()
        }
    })
}

async fn component_of(cx: &StepCx<'_>, member: &Member) -> Result<Option<Component>> {
    let instance = cx.store.instance_lookup(member.instance_id).await?;
    let instance = instance.ok_or(StoreError::Gone("instance".to_owned()))?;
    let manifest = cx.releases.manifest(cx.store, instance.app_version_id).await?;
    Ok(manifest.component(&member.component_key).cloned())
}

/// Returns the members that were uncounted for this release.
async fn named(cx: &StepCx<'_>) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for id in recorded::<Uncounted>(cx.operation, &ENSURE_RELEASABLE)?.unwrap_or_default().members {
        members.push(cx.store.member_lookup(id).await?.ok_or(StoreError::Gone("member".to_owned()))?);
    }
    Ok(members)
}

/// Returns the members of the current component of each instance, and those before: a component starts once its dependents
/// are removed.
async fn of_this_turn(
    cx: &StepCx<'_>,
    members: Vec<Member>,
    order_of: impl Fn(MemberId) -> u32,
) -> Result<Vec<Member>> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    let is_removed = |member: &Member| {
        let prefix = format!("{}/{} {}/", cx.step, REMOVE.kind, member.id);
        let last = children.iter().rfind(|child| child.spawn_key.starts_with(&prefix));
        last.is_some_and(|child| child.state == OperationState::Succeeded)
    };
    let mut waits: BTreeSet<(InstanceId, u32)> = BTreeSet::new();
    for member in members.iter().filter(|member| !is_removed(member)) {
        waits.insert((member.instance_id, order_of(member.id)));
    }
    let last = |instance: InstanceId| {
        waits.iter().filter(|(of, _)| *of == instance).map(|(_, order)| *order).max().unwrap_or(0)
    };
    Ok(members.into_iter().filter(|member| order_of(member.id) >= last(member.instance_id)).collect())
}

async fn node_is_lost(cx: &StepCx<'_>, node: Option<muster_ids::NodeId>) -> Result<bool> {
    let Some(node) = node else { return Ok(false) };
    Ok(cx.store.node_lookup(node).await?.is_some_and(|node| node.unreachable_since.is_some()))
}

/// Reports whether every removal has verified that nothing depends on its member. The rest of them is destroyed with the
/// sandbox.
async fn all_withdrawn(cx: &StepCx<'_>, members: &[Member]) -> Result<bool> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    for member in members {
        let prefix = format!("{}/{} {}/", cx.step, REMOVE.kind, member.id);
        let Some(child) = children.iter().rfind(|child| child.spawn_key.starts_with(&prefix)) else {
            return Ok(false);
        };
        let Some(child) = cx.store.operation_lookup(child.id).await? else { return Ok(false) };
        if child.step(VERIFY_WITHDRAWN.name).is_none_or(|step| step.state != StepState::Done) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The members are children, not items: an operation with items can be accepted as partial, and a release cannot.
pub(super) fn without_items(act: StepAction) -> StepAction {
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
