//! Have members of apps that are on the node replaced elsewhere, or drained where they cannot be; one of a component at a time,
//! so that no quorum is lost to it. What cannot be moved by the deadline is left to the next step.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_manifest::{Manifest, Quorum, ReplaceOrder, Verb};
use muster_model::event::EventType;
use muster_model::instance::{Component, Health, Instance};
use muster_model::member::{Member, MemberState};
use muster_model::operation::{Item, ItemState, Operation, OperationState};
use muster_model::quorum::{Need, fault, leaving, replacing};
use muster_store::{OperationChild, Result, StoreError, Tx};
use serde_json::{Value, json};

use super::subject;
use crate::child::{self, Part};
use crate::definition::{Step, StepCx, Undo};
use crate::member::{DRAIN, REPLACE, manifest_of};
use crate::{Act, Verdict};

pub(super) const MOVE_MEMBERS: Step = Step {
    name: "move_members",
    does: "has the members of apps on it replaced elsewhere, or drained",
    verifies: false,
    run,
    undo: Undo::None("what was moved works elsewhere, and stays there"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let node = subject(cx).await?;
        let mut members = cx.store.member_on(node.id).await?;
        // Who does not work is missed by nobody, and makes room for those who are.
        members.sort_by_key(Member::works);
        let children = cx.store.operation_children(cx.operation.id).await?;
        let mut items = Vec::new();
        let mut busy = BTreeSet::new();
        for member in &members {
            let child = mine(&children, member);
            items.push(item(member, child));
            if child.is_some_and(|child| !child.state.is_final()) {
                busy.insert((member.instance_id, member.component_key.clone()));
            }
        }
        let mut due = Vec::new();
        for member in &members {
            let place = (member.instance_id, member.component_key.clone());
            let asked = mine(&children, member).is_some();
            if asked
                || !matches!(member.state, MemberState::Active | MemberState::Drained)
                || busy.contains(&place)
            {
                continue;
            }
            if let Some(moved) = plan(cx, member).await? {
                busy.insert(place);
                due.push(moved);
            }
        }
        let (now, look) = (cx.now, cx.timing.look);
        if now >= cx.operation.deadline_at || (due.is_empty() && busy.is_empty()) {
            return Ok(Act::write(move |_, told| {
                Box::pin(async move {
                    let left = items.iter().filter(|item| item.state != ItemState::Succeeded).count();
                    told.items = Some(items);
                    Ok(Verdict::said(match left {
                        0 => "no member of an app is left to be moved".to_owned(),
                        left => format!("{left} members could not be moved"),
                    }))
                })
            }));
        }
        let under_way = busy.len();
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                let mut held_back = None;
                for moved in due {
                    if let Some(why) = cannot_be_missed(tx, &moved).await? {
                        held_back = Some(why);
                        continue;
                    }
                    let name = moved.operation.subject_name.clone();
                    if let Some(successor) = moved.successor {
                        let (id, instance) = successor;
                        let (key, at) = (moved.component.key.as_str(), now);
                        let component = tx.component_want(instance.id, key, 0, 1).await?;
                        let fresh = requested(&instance, &component, id, &moved.operation, at);
                        tx.member_request(&fresh).await?;
                    }
                    tx.operation_open(&moved.operation).await?;
                    let data = json!({"kind": moved.operation.kind, "part_id": moved.operation.id, "name": name,
                                      "reason": "its node is being emptied"});
                    told.events.push((
                        EventType::OperationAccepted,
                        format!("/v1/operations/{}", moved.operation.id),
                        data,
                    ));
                }
                told.items = Some(items);
                let reason = held_back.unwrap_or_else(|| format!("{under_way} members are being moved"));
                Ok(Verdict::Wait { reason, until: now + look })
            })
        }))
    })
}

/// A member that is about to be moved.
struct Moved {
    operation: Operation,
    component: Component,
    successor: Option<(MemberId, Instance)>,
    /// How many of its component must stay at work, if it is out of work before another takes its place.
    quorum: Option<Quorum>,
    /// Members whose nodes nobody hears from.
    unheard: BTreeSet<MemberId>,
}

/// Why it is not moved now, if it is not: what its component needs is looked at where nobody else can take one out meanwhile.
async fn cannot_be_missed(tx: &mut Tx, moved: &Moved) -> Result<Option<String>> {
    let (instance, key) = (moved.component.instance_id, &moved.component.key);
    let component = tx.component_want(instance, key, 0, 0).await?;
    let operations = tx.operation_touching_now(instance.uuid()).await?;
    let member = MemberId::from_uuid(moved.operation.subject_id);
    if replacing(&operations, &BTreeSet::new()).contains(&member) {
        return Ok(Some(format!("{} is to be replaced already", moved.operation.subject_name)));
    }
    let Some(quorum) = moved.quorum.filter(|_| component.desired > 0) else { return Ok(None) };
    let living = tx.member_living_now(instance).await?;
    let mut out = leaving(&operations);
    out.extend(&moved.unheard);
    let need = Need { need: quorum.of(component.desired), desired: component.desired };
    Ok(fault(key, need, &living, &out, &BTreeSet::from([member])))
}

fn mine<'c>(children: &'c [OperationChild], member: &Member) -> Option<&'c OperationChild> {
    children.iter().rfind(|child| child.subject_id == member.id.uuid())
}

fn item(member: &Member, child: Option<&OperationChild>) -> Item {
    Item {
        id: member.id.to_string(),
        name: member.name.clone(),
        state: match child.map(|child| child.state) {
            None => ItemState::Pending,
            Some(OperationState::Succeeded) => ItemState::Succeeded,
            Some(OperationState::Parked) => ItemState::Parked,
            Some(state) if state.is_final() => ItemState::Failed,
            Some(_) => ItemState::Running,
        },
        operation_id: child.map(|child| child.id),
        message: child.and_then(|child| child.says.clone()),
    }
}

/// How a member is moved; nothing where its app has no way to, or something else is under way on it.
async fn plan(cx: &StepCx<'_>, member: &Member) -> Result<Option<Moved>> {
    if !cx.store.operation_open_on(member.id.uuid()).await?.is_empty() {
        return Ok(None);
    }
    let instance = cx.store.instance_lookup(member.instance_id).await?;
    let instance = instance.ok_or(StoreError::Gone("instance".to_owned()))?;
    let manifest = manifest_of(cx, instance.app_version_id).await?;
    let components = cx.store.component_list(instance.id).await?;
    let Some(component) = components.into_iter().find(|of| of.key == member.component_key) else {
        return Ok(None);
    };
    let successor: MemberId = cx.world.id();
    let (definition, input) = if manifest.supports(Verb::Replace) {
        let input = json!({"force": false, "successor": successor, "app_version_id": instance.app_version_id,
                           "capacity": capacity(&manifest, &component), "shape": instance.shape});
        (&REPLACE, input)
    } else if manifest.supports(Verb::Drain) && member.state == MemberState::Active {
        (&DRAIN, json!({}))
    } else {
        return Ok(None);
    };
    let replaces = definition.kind == REPLACE.kind;
    let mut operation = child::make(
        cx,
        &member.id.to_string(),
        Part {
            definition,
            subject_kind: "member",
            subject_id: member.id.uuid(),
            subject_name: member.name.clone(),
            input,
            deadline_at: cx.operation.deadline_at,
        },
    );
    // It belongs to those whose member it is, and waits for what they do with the whole.
    (operation.tenant_id, operation.project_id) = (Some(member.tenant_id), Some(member.project_id));
    operation.shares = vec![instance.id.uuid()];
    let said = manifest.component(&component.key);
    let out_first = said.is_none_or(|said| !replaces || said.replace_order == ReplaceOrder::OldFirst);
    let quorum = said.and_then(|said| said.quorum).filter(|_| out_first);
    let places = cx.store.member_places(instance.id).await?;
    let unheard = places.iter().filter(|place| place.unreachable_since.is_some());
    let unheard = unheard.map(|place| place.member_id).collect();
    let successor = replaces.then_some((successor, instance));
    Ok(Some(Moved { operation, component, successor, quorum, unheard }))
}

/// What a new member of a component asks for.
fn capacity(manifest: &Manifest, component: &Component) -> Value {
    let declared = manifest.component(&component.key).map(|declared| json!(declared.capacity));
    component.capacity.clone().or(declared).unwrap_or_default()
}

fn requested(
    instance: &Instance,
    component: &Component,
    id: MemberId,
    operation: &Operation,
    at: jiff::Timestamp,
) -> Member {
    let operation_id: OperationId = operation.id;
    Member {
        id,
        tenant_id: instance.tenant_id,
        project_id: instance.project_id,
        instance_id: instance.id,
        component_key: component.key.clone(),
        name: format!("{}-{}-{}", instance.name, component.key, component.last_ordinal),
        state: MemberState::Requested,
        health: Health::Unknown,
        health_message: None,
        health_incarnation: 0,
        free_at: None,
        allocation_id: None,
        allocation_made: false,
        bound_capacity_shape: None,
        cell_id: None,
        incarnation: 0,
        app_version_id: None,
        adapter_detail: json!({}),
        failure_reason: None,
        message: None,
        fenced: false,
        active_witness_id: None,
        drained_witness_id: None,
        removed_witness_id: None,
        operation_id: Some(operation_id),
        correlation_id: operation.correlation_id.clone(),
        created_at: at,
        updated_at: at,
        version: 1,
    }
}
