//! Replaces the members on the node elsewhere, or drains them in place if they cannot be replaced; one member of a component
//! at a time, so that no quorum is lost.
//!
//! Nothing is removed before its successor is active: a component replaced old-first waits with the reason, unless the drain
//! is forced. The step ends when each replacement has ended. Members that could not be moved by the deadline block the
//! drain, or, if it is forced, are released by the next step.

use std::collections::BTreeSet;

use muster_db::{OperationChild, Result, StoreError, Tx};
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_manifest::{Manifest, Quorum, ReplaceOrder};
use muster_model::event::{EventType, Timeline};
use muster_model::instance::{Component, Instance};
use muster_model::member::{Member, NewMember};
use muster_model::node::Capacity;
use muster_model::operation::{Item, ItemState, Operation, OperationState};
use muster_model::operation_input::{OperationInput, RequestedCapacity};
use muster_model::quorum::{Need, leaving, quorum_violation, replacing};
use serde_json::json;

use super::fate::{DrainMode, MemberFate, member_fate};
use super::subject;
use crate::child::{self, ChildRequest};
use crate::definition::{Step, StepCx, Undo};
use crate::member::{DRAIN, REPLACE, amounts, manifest_of};
use crate::{StepAction, StepOutcome};

pub(super) const MOVE_MEMBERS: Step = Step {
    name: "move_members",
    does: "replace the members on other nodes, or drain them",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    let mut members = cx.store.member_on(node.id).await?;
    // Inactive members go first: they cost no quorum, and free capacity for the active ones.
    members.sort_by_key(Member::works);
    let children = cx.store.operation_children(cx.operation.id).await?;
    let mode = DrainMode { force: is_forced(cx), unreachable: node.unreachable_since.is_some() };
    let mut items = member_items(cx, &members, &children);
    let mut busy = BTreeSet::new();
    for member in &members {
        if latest(cx, &children, member.id).is_some_and(|child| !child.state.is_final()) {
            busy.insert((member.instance_id, member.component_key.clone()));
        }
    }
    let (mut due, mut waits) = (Vec::new(), Vec::new());
    for member in &members {
        if latest(cx, &children, member.id).is_some() {
            continue;
        }
        let why = match plan(cx, member, mode).await? {
            Planned::Open(moved) => {
                if busy.insert((member.instance_id, member.component_key.clone())) {
                    due.push(*moved);
                    continue;
                }
                format!("another {} is moved first", member.component_key)
            }
            Planned::Wait(why) => {
                waits.push(why.clone());
                why
            }
            Planned::Stay(why) => why,
        };
        if let Some(item) = items.iter_mut().find(|item| item.id == member.id.to_string()) {
            item.message = Some(why);
        }
    }
    let open: Vec<&OperationChild> = open_moves(&children).collect();
    let (now, look) = (cx.now, cx.timing.look);
    let late = now >= cx.operation.deadline_at;
    if late || (due.is_empty() && open.is_empty() && waits.is_empty()) {
        return Ok(finalize(items, mode.force, late));
    }
    let mut reasons: Vec<String> =
        open.iter().filter(|child| is_blocked(child)).map(|child| blocked(child)).collect();
    if let moving @ 1.. = open.len() - reasons.len() + due.len() {
        reasons.push(format!("{moving} members are being moved"));
    }
    reasons.extend(waits);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            for moved in due {
                let member = MemberId::from_uuid(moved.operation.subject_id).to_string();
                if let Some(why) = cannot_be_missed(tx, &moved).await? {
                    if let Some(item) = items.iter_mut().find(|item| item.id == member) {
                        item.message = Some(why.clone());
                    }
                    reasons.insert(0, why);
                    continue;
                }
                let name = moved.operation.subject_name.clone();
                if let Some(successor) = moved.successor {
                    let (id, instance) = successor;
                    let key = moved.component.key.as_str();
                    let component = tx.component_change_desired(instance.id, key, 0, 1).await?;
                    let new = NewMember {
                        id,
                        instance: &instance,
                        component_key: key,
                        ordinal: component.last_ordinal,
                        allocation_id: None,
                        operation_id: moved.operation.id,
                        correlation_id: &moved.operation.correlation_id,
                        now,
                    };
                    tx.member_request(&Member::requested(new)).await?;
                }
                tx.operation_open(&moved.operation).await?;
                if let Some(item) = items.iter_mut().find(|item| item.id == member) {
                    (item.state, item.operation_id) = (ItemState::Running, Some(moved.operation.id));
                }
                let data = json!({"kind": moved.operation.kind, "part_id": moved.operation.id, "name": name,
                                  "reason": "its node is draining"});
                effects.events.push((
                    EventType::OperationAccepted,
                    format!("/v1/operations/{}", moved.operation.id),
                    data,
                ));
            }
            effects.items = Some(items);
            Ok(StepOutcome::Wait { reason: few(&reasons), until: now + look })
        })
    }))
}

pub(super) fn is_forced(cx: &StepCx<'_>) -> bool {
    cx.operation.input.force
}

/// Ends the step when no replacement is open, or at the deadline. A drain that is not forced is blocked here if members
/// could not be moved: none of their allocations are released.
fn finalize(items: Vec<Item>, force: bool, late: bool) -> StepAction {
    let left: Vec<String> = items
        .iter()
        .filter(|item| item.state != ItemState::Succeeded)
        .map(|item| match &item.message {
            Some(message) => format!("{}: {message}", item.name),
            None => item.name.clone(),
        })
        .collect();
    // A member that only its owner can move leaves an allocation, for which the next step waits.
    let stuck =
        |item: &Item| matches!(item.state, ItemState::Failed | ItemState::Blocked | ItemState::Running);
    let blocks = !force && (items.iter().any(stuck) || (late && !left.is_empty()));
    let why = match left.len() {
        0 => "no member of an app is left to move".to_owned(),
        1 => format!("1 member could not be moved: {}", few(&left)),
        many => format!("{many} members could not be moved: {}", few(&left)),
    };
    StepAction::commit(move |_, effects| {
        Box::pin(async move {
            effects.items = Some(items);
            Ok(match (blocks, late) {
                (false, _) => StepOutcome::with_message(why),
                (true, false) => StepOutcome::Refused { reason: "some_failed", message: why },
                (true, true) => StepOutcome::Refused {
                    reason: "deadline_passed",
                    message: format!("its deadline has passed; {why}"),
                },
            })
        })
    })
}

/// Returns the first few of several reasons.
fn few(reasons: &[String]) -> String {
    let shown = reasons.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match reasons.len() {
        0..=3 => shown,
        all => format!("{shown}; and {} more", all - 3),
    }
}

/// A cancelled drain moves no more members. A replacement past its point of no return continues to its end.
async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    let open: Vec<OperationId> = open_moves(&children).map(|child| child.id).collect();
    if open.is_empty() {
        return Ok(StepOutcome::with_message("moved members stay where they are").into());
    }
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            for id in &open {
                child::cancel(tx, *id, now).await?;
            }
            Ok(StepOutcome::with_message(format!("{} replacements are being cancelled", open.len())))
        })
    }))
}

/// Returns the open operations of a drain that move members.
pub(super) fn open_moves(children: &[OperationChild]) -> impl Iterator<Item = &OperationChild> {
    children.iter().filter(|child| child.kind.is_of("member") && !child.state.is_final())
}

fn is_blocked(child: &OperationChild) -> bool {
    child.state == OperationState::Blocked
}

/// Describes a blocked child and its reason.
pub(super) fn blocked(child: &OperationChild) -> String {
    let says = child.message.as_deref().unwrap_or("it gave no reason");
    format!("{} ({}) is blocked: {says}", child.id, child.kind)
}

/// Returns the latest child that moves a member: of this retry epoch, or of an earlier one if it is open or succeeded.
fn latest<'c>(
    cx: &StepCx<'_>,
    children: &'c [OperationChild],
    member: MemberId,
) -> Option<&'c OperationChild> {
    let retry_epoch = format!("/{}", cx.operation.input.retry_epoch);
    let last = children.iter().rfind(|child| child.subject_id == member.uuid());
    last.filter(|child| {
        child.state == OperationState::Succeeded
            || !child.state.is_final()
            || child.spawn_key.ends_with(&retry_epoch)
    })
}

/// Builds the items of members: those on the node, and those that have left it.
pub(super) fn member_items(cx: &StepCx<'_>, members: &[Member], children: &[OperationChild]) -> Vec<Item> {
    let on_node = |id: &str| members.iter().any(|member| member.id.to_string() == id);
    let left = cx.operation.items.iter().filter(|item| !on_node(&item.id));
    let left = left.filter_map(|item| Some((item.id.parse::<MemberId>().ok()?, item.name.clone(), false)));
    let here = members.iter().map(|member| (member.id, member.name.clone(), true));
    here.chain(left).map(|(id, name, on_node)| item(id, name, on_node, latest(cx, children, id))).collect()
}

fn item(id: MemberId, name: String, on_node: bool, child: Option<&OperationChild>) -> Item {
    let state = match child.map(|child| child.state) {
        None if on_node => ItemState::Pending,
        // Its owner has moved or removed it.
        None => ItemState::Succeeded,
        Some(OperationState::Succeeded) => ItemState::Succeeded,
        Some(OperationState::Blocked) => ItemState::Blocked,
        Some(state) if state.is_final() && !on_node => ItemState::Succeeded,
        Some(state) if state.is_final() => ItemState::Failed,
        Some(_) => ItemState::Running,
    };
    Item {
        id: id.to_string(),
        name,
        state,
        operation_id: child.map(|child| child.id),
        message: child.filter(|_| state != ItemState::Succeeded).and_then(|child| child.message.clone()),
    }
}

/// Plan for a member that has not been moved.
enum Planned {
    Open(Box<Moved>),
    Wait(String),
    Stay(String),
}

/// A member about to be moved.
struct Moved {
    operation: Operation,
    component: Component,
    successor: Option<(MemberId, Instance)>,
    /// Quorum of its component, if it stops before its successor starts.
    quorum: Option<Quorum>,
    /// Members on unreachable nodes.
    unheard: BTreeSet<MemberId>,
}

/// Explains why a member cannot be moved now, if so. Checked inside the transaction, under the lock of its component.
async fn cannot_be_missed(tx: &mut Tx, moved: &Moved) -> Result<Option<String>> {
    let (instance, key) = (moved.component.instance_id, &moved.component.key);
    let component = tx.component_change_desired(instance, key, 0, 0).await?;
    let operations = tx.operations_locking_now(instance.uuid()).await?;
    let member = MemberId::from_uuid(moved.operation.subject_id);
    if replacing(&operations, &BTreeSet::new()).contains(&member) {
        return Ok(Some(format!("{} is already being replaced", moved.operation.subject_name)));
    }
    let Some(quorum) = moved.quorum.filter(|_| component.desired > 0) else { return Ok(None) };
    let living = tx.member_living_now(instance).await?;
    let mut out = leaving(&operations);
    out.extend(&moved.unheard);
    let need = Need { need: quorum.of(component.desired), desired: component.desired };
    Ok(quorum_violation(key, need, &living, &out, &BTreeSet::from([member])))
}

/// Plans how a member is moved, or why it is not.
async fn plan(cx: &StepCx<'_>, member: &Member, mode: DrainMode) -> Result<Planned> {
    if let Some(other) = cx.store.operation_open_on(member.id.uuid()).await?.first() {
        return Ok(Planned::Wait(format!("{} ({}) is in progress on {}", other.id, other.kind, member.name)));
    }
    let instance = cx.store.instance_lookup(member.instance_id).await?;
    let instance = instance.ok_or(StoreError::Gone("instance".to_owned()))?;
    let manifest = manifest_of(cx, member.app_version_id.unwrap_or(instance.app_version_id)).await?;
    let order = match member_fate(member, &manifest, mode) {
        MemberFate::Wait(why) => return Ok(Planned::Wait(why)),
        MemberFate::Stay(why) => return Ok(Planned::Stay(why)),
        MemberFate::Drain => None,
        MemberFate::Replace(order) => Some(order),
    };
    let components = cx.store.component_list(instance.id).await?;
    let Some(component) = components.into_iter().find(|of| of.key == member.component_key) else {
        return Ok(Planned::Stay(format!("its instance has no component {}", member.component_key)));
    };
    let successor: MemberId = cx.env.id();
    let wanted = manifest_of(cx, instance.app_version_id).await?;
    let (definition, input) = match order {
        // The replacement enforces the order, whatever changes before it starts.
        Some(order) => {
            let input = OperationInput {
                successor: Some(successor),
                app_version_id: Some(instance.app_version_id),
                capacity: capacity(&wanted, &component).map(RequestedCapacity::Each),
                shape: Some(instance.shape.clone()),
                wait_for_room: true,
                successor_first: order == ReplaceOrder::NewFirst && !mode.force,
                ..OperationInput::default()
            };
            (&REPLACE, input)
        }
        None => (&DRAIN, OperationInput::default()),
    };
    let mut operation = child::make(
        cx,
        &member.id.to_string(),
        ChildRequest {
            definition,
            subject_kind: "member",
            subject_id: member.id.uuid(),
            subject_name: member.name.clone(),
            timeline: Timeline::of_member(member),
            input,
            deadline_at: cx.operation.deadline_at,
        },
    );
    // It belongs to the member's project, and waits for operations on the whole instance.
    (operation.tenant_id, operation.project_id) = (Some(member.tenant_id), Some(member.project_id));
    operation.shared_locks = vec![instance.id.uuid()];
    let out_first = order != Some(ReplaceOrder::NewFirst);
    let declared = manifest.component(&component.key);
    let quorum = declared.and_then(|declared| declared.quorum).filter(|_| out_first);
    let sandboxes = cx.store.member_places(instance.id).await?;
    let unheard = sandboxes.iter().filter(|place| place.unreachable_since.is_some());
    let unheard = unheard.map(|place| place.member_id).collect();
    let successor = order.is_some().then_some((successor, instance));
    Ok(Planned::Open(Box::new(Moved { operation, component, successor, quorum, unheard })))
}

/// Returns the capacity requested for a new member of a component.
fn capacity(manifest: &Manifest, component: &Component) -> Option<Capacity> {
    let declared = manifest.component(&component.key).map(|declared| amounts(declared.capacity));
    component.capacity.or(declared)
}
