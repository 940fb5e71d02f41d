//! Finds capacity for a member: in the allocation that its owner named, or in a new one. The undo releases a new one.

use jiff::Timestamp;
use muster_db::{OperationChild, Result};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::event::{EventType, Timeline};
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::node::Capacity;
use muster_model::operation::{OperationKind, OperationState};
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::subject::{instance, manifest_of, refused, subject, wanted_version};
use crate::allocation::{CREATE, path as allocation_path};
use crate::child::{self, ChildRequest};
use crate::definition::{Step, StepCx, Undo};
use crate::member::amounts;
use crate::proof::component;
use crate::{StepAction, StepOutcome};

pub(super) const CLAIM: Step = Step {
    name: "claim",
    does: "claim capacity: the named allocation, or a new one",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if !can_begin(cx.operation.kind, member.state) {
        let why = format!("it is {}: it needs no capacity", member.state);
        return Ok(refused(MemberFailure::ProvisionFailed, why).into());
    }
    if let Some(child) = child::find(cx, "allocation").await? {
        return Ok(allocated(cx, &child));
    }
    if let Some(id) = member.allocation_id {
        let held = cx.store.allocation_lookup(id).await?;
        let held = held.filter(|held| held.state == AllocationState::Active);
        if let Some(held) = held {
            return Ok(bind(cx, member, &held));
        }
        if !member.allocation_made {
            let why = "the named allocation is no longer active";
            return Ok(refused(MemberFailure::AllocationEnded, why).into());
        }
    }
    make(cx, member, MemberState::Provisioning, None).await
}

/// Maps the progress of the allocation's creation to an outcome.
pub(super) fn allocated(cx: &StepCx<'_>, child: &OperationChild) -> StepAction {
    match child.state {
        OperationState::Succeeded => StepOutcome::with_message("its allocation is active").into(),
        state if !state.is_final() => child::wait(cx, child),
        _ => {
            let reason = match child.reason.as_deref() {
                Some("no_capacity" | "wait_expired") => MemberFailure::NoCapacity,
                _ => MemberFailure::ProvisionFailed,
            };
            refused(reason, child::why(child)).into()
        }
    }
}

/// Reports whether a member in this state is new or to be recreated: no other member is touched by this operation.
fn can_begin(kind: OperationKind, state: MemberState) -> bool {
    match state {
        MemberState::Requested | MemberState::Failed | MemberState::Provisioning => true,
        MemberState::Active => kind == OperationKind::MemberRecover,
        _ => false,
    }
}

/// Reports whether the desired count rises again: a failed add had lowered it and is now retried.
fn counts_again(cx: &StepCx<'_>, member: &Member) -> bool {
    let never_worked = member.active_witness_id.is_none();
    member.state == MemberState::Failed && never_worked && cx.operation.input.replaces.is_none()
}

/// Binds the member to an existing allocation.
fn bind(cx: &StepCx<'_>, member: Member, held: &Allocation) -> StepAction {
    let (now, operation_id, shape) = (cx.now, cx.operation.id, held.shape);
    let name = held.name.clone();
    let counts_again = counts_again(cx, &member);
    StepAction::commit(move |tx, _| {
        Box::pin(async move {
            if counts_again {
                tx.component_change_desired(member.instance_id, &member.component_key, 1, 0).await?;
            }
            let after = Member {
                state: MemberState::Provisioning,
                bound_capacity_shape: Some(shape.as_str().to_owned()),
                operation_id: Some(operation_id),
                failure_reason: None,
                message: None,
                ..member.clone()
            };
            tx.member_move(&member, &after, now).await?;
            Ok(StepOutcome::with_message(format!("it goes into {name}")))
        })
    })
}

/// Opens the creation of an allocation for a member, which moves to `state`. It waits in the queue for capacity until
/// `wait_until`, if given.
pub(super) async fn make(
    cx: &StepCx<'_>,
    member: Member,
    state: MemberState,
    wait_until: Option<Timestamp>,
) -> Result<StepAction> {
    let instance = instance(cx, &member).await?;
    let capacity = capacity_of(cx, &instance, &member).await?;
    // Without a requested shape, as in a recovery, the shape of the instance applies.
    let asked = cx.operation.input.shape.as_deref().unwrap_or(&instance.shape);
    let shape = AllocationShape::parse(asked);
    let taken = cx.store.allocation_by_name(member.project_id, &member.name).await?;
    if taken.is_some_and(|taken| !taken.state.is_final()) {
        let why =
            format!("the project already has an allocation named {}: release or rename it", member.name);
        return Ok(refused(MemberFailure::ProvisionFailed, why).into());
    }
    let id: AllocationId = cx.env.id();
    let shape = shape.unwrap_or(AllocationShape::GpuSlice);
    let mut allocation = Allocation {
        shape,
        wait_until,
        ..Allocation::requested(id, member.tenant_id, member.project_id, &member.name, capacity, cx.now)
    };
    let opened = child::make(
        cx,
        "allocation",
        ChildRequest {
            definition: &CREATE,
            subject_kind: "allocation",
            subject_id: id.uuid(),
            subject_name: member.name.clone(),
            timeline: Timeline::default(),
            input: OperationInput::default(),
            deadline_at: cx.operation.deadline_at,
        },
    );
    allocation.operation_id = Some(opened.id);
    let (now, look, operation_id) = (cx.now, cx.timing.look, cx.operation.id);
    let counts_again = counts_again(cx, &member);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            if !tx.quota_take(member.project_id, 1, capacity).await? {
                let excess = tx.quota_excess(member.project_id, 1, &capacity).await?;
                return Ok(refused(MemberFailure::NoCapacity, excess));
            }
            if counts_again {
                tx.component_change_desired(member.instance_id, &member.component_key, 1, 0).await?;
            }
            tx.allocation_request(&allocation).await?;
            tx.operation_open(&opened).await?;
            let after = Member {
                state,
                allocation_id: Some(id),
                allocation_made: true,
                bound_capacity_shape: Some(shape.as_str().to_owned()),
                operation_id: Some(operation_id),
                failure_reason: None,
                message: None,
                ..member.clone()
            };
            tx.member_move(&member, &after, now).await?;
            let data =
                json!({"name": allocation.name, "capacity": allocation.capacity, "member_id": member.id});
            effects.events.push((EventType::AllocationRequested, allocation_path(&allocation), data));
            Ok(StepOutcome::Wait { reason: "its allocation is being created".to_owned(), until: now + look })
        })
    }))
}

/// Returns the requested capacity: from the operation, or else from the instance's component, or else from the manifest.
async fn capacity_of(cx: &StepCx<'_>, instance: &Instance, member: &Member) -> Result<Capacity> {
    let requested = cx.operation.input.capacity.as_ref();
    if let Some(capacity) = requested.and_then(|capacity| capacity.of_component(&member.component_key)) {
        return Ok(capacity);
    }
    let components = cx.store.component_list(instance.id).await?;
    let of = components.into_iter().find(|component| component.key == member.component_key);
    if let Some(capacity) = of.and_then(|component| component.capacity) {
        return Ok(capacity);
    }
    let manifest = manifest_of(cx, wanted_version(cx, instance)).await?;
    Ok(amounts(component(&manifest, member)?.capacity))
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    // An earlier allocation, with the member's data in it, is not this operation's to release.
    if !child::ever(cx, "allocation").await? {
        return Ok(StepOutcome::with_message("no other capacity was claimed for it").into());
    }
    super::release::give_back(cx, &member).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_or_failed_members_are_provisioned() {
        let begins = |kind: OperationKind| {
            let states = MemberState::ALL.iter().filter(|state| can_begin(kind, **state));
            states.map(|state| state.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(begins(OperationKind::MemberAdd), "requested provisioning failed");
        assert_eq!(begins(OperationKind::MemberRecover), "requested provisioning active failed");
    }
}
