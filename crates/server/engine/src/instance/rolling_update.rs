//! Moves the members to the instance's desired release: in the order of the components, at their pace.

use std::collections::BTreeSet;

use muster_db::Result;
use muster_ids::{MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberState};
use muster_model::operation::{ItemState, OperationKind};
use muster_model::operation_input::OperationInput;
use muster_model::quorum::{Need, at_work, spare};
use uuid::Uuid;

use super::shrink::{among_all, ended};
use super::subject::{item_of, order, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather};
use crate::member::{UPGRADE, at_rest, manifest_of};
use crate::{StepAction, StepOutcome};

pub(super) const ROLLING_UPDATE: Step = Step {
    name: "rolling_update",
    does: "upgrade the members one by one",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a rollback is an operation of its own"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let instance = subject(cx).await?;
    let manifest = manifest_of(cx, instance.app_version_id).await?;
    let version = instance.app_version_id;
    let changed = cx.operation.input.config.is_some();
    let left = left_under_way(cx).await?;
    let mut members = cx.store.member_living(instance.id).await?;
    let mut resting = BTreeSet::new();
    for member in &members {
        if at_rest(cx.store, member).await? {
            resting.insert(member.id);
        }
    }
    members.retain(|member| {
        let runs = member.app_version_id == Some(version) && member.state == MemberState::Active;
        // A member drained by a user stays drained on its old release: that user replaces it.
        let concerned =
            !matches!(member.state, MemberState::Removing | MemberState::Failed | MemberState::Requested)
                && !resting.contains(&member.id);
        match item_of(cx, member) {
            Some(item) if item.state == ItemState::Succeeded => false,
            // A member with a child stays in the plan until its item holds the outcome.
            Some(item) if item.operation_id.is_some() => true,
            _ => concerned && (changed || !runs || left.contains(&member.id.uuid())),
        }
    });
    let Some(wave) = members.iter().map(|member| order(&manifest, member)).min() else {
        return Ok(StepOutcome::with_message("all members run it").into());
    };
    members.retain(|member| order(&manifest, member) == wave);
    let paces = members
        .iter()
        .filter_map(|member| manifest.component(&member.component_key))
        .map(|component| component.drain_pace.at_once);
    let pace = usize::try_from(paces.min().unwrap_or(1)).unwrap_or(1).max(1);
    let spared = spared(cx, &instance, &manifest, &mut members).await?;
    // A rollback from a broken release proceeds one by one even below the quorum: waiting would not repair anything.
    let pace =
        pace.min(if cx.operation.kind == OperationKind::InstanceRollback { spared.max(1) } else { spared });
    let input = OperationInput { app_version_id: Some(version), ..OperationInput::default() };
    let planned: Vec<Planned> = members
        .into_iter()
        .map(|member| Planned { member, definition: &UPGRADE, input: input.clone() })
        .collect();
    // Open children of a superseded upgrade are superseded too.
    Ok(match gather(cx, planned, pace, TakesOver::Upgrades).await? {
        Gathered::Pending(act) => among_all(cx, act),
        Gathered::Ended(items, succeeded) if items.len() == succeeded => {
            let until = cx.now;
            ended(cx, items, StepOutcome::Wait { reason: "the next components follow".to_owned(), until })
        }
        Gathered::Ended(items, _) => {
            let message = failures(&items);
            ended(cx, items, StepOutcome::Refused { reason: "some_failed", message })
        }
    })
}

/// Returns the members that a superseded upgrade is still working on or was about to: they move to this release too, or they
/// would later move to the other one.
async fn left_under_way(cx: &StepCx<'_>) -> Result<BTreeSet<Uuid>> {
    let Some(inherited) = &cx.operation.input.inherited else { return Ok(BTreeSet::new()) };
    let children = cx.store.operation_children(inherited.operation).await?;
    let open = children.iter().filter(|child| child.kind == UPGRADE.kind && !child.state.is_final());
    Ok(open.map(|child| child.subject_id).collect())
}

/// Returns how many members can be upgraded concurrently without breaking a quorum. Inactive ones come first and cost
/// nothing.
async fn spared(
    cx: &StepCx<'_>,
    instance: &Instance,
    manifest: &Manifest,
    members: &mut [Member],
) -> Result<usize> {
    let children = cx.store.operation_children(cx.operation.id).await?;
    let open = |member: &Member| {
        let id = member.id.uuid();
        children.iter().any(|child| child.subject_id == id && !child.state.is_final())
    };
    let places = cx.store.member_places(instance.id).await?;
    let lost = places.iter().filter(|place| place.unreachable_since.is_some());
    let lost: BTreeSet<MemberId> = lost.map(|place| place.member_id).collect();
    let living = cx.store.member_living(instance.id).await?;
    let mut out = lost.clone();
    out.extend(living.iter().filter(|member| open(member)).map(|member| member.id));
    let ill = |member: &Member| !member.works() || lost.contains(&member.id);
    members.sort_by_key(|member| !ill(member));
    let under_way = members.iter().filter(|member| open(member)).count();
    let mut free = members.len();
    for component in cx.store.component_list(instance.id).await? {
        let mine = || members.iter().filter(|member| member.component_key == component.key);
        let said = manifest.component(&component.key).and_then(|said| said.quorum);
        let Some(quorum) = said.filter(|_| component.desired > 0 && mine().any(|member| !open(member)))
        else {
            continue;
        };
        let need = Need { need: quorum.of(component.desired), desired: component.desired };
        let working = at_work(&component.key, &living, &out).count();
        let mine_open = mine().filter(|member| open(member)).count();
        let cheap = mine().filter(|member| ill(member) && !open(member)).count();
        free = free.min(cheap + spare(need, working, mine_open));
    }
    Ok(under_way + free)
}
