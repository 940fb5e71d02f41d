//! Set the number of members of an instance's components.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_api::Code;
use muster_api::instance::{ComponentAsk, InstanceScale};
use muster_authz::Permission;
use muster_db::Tx;
use muster_engine::instance::SCALE;
use muster_engine::member::amounts;
use muster_ids::{AllocationId, MemberId, TypedId as _};
use muster_manifest::{Capacity, Manifest};
use muster_model::event::EventType;
use muster_model::instance::{Component, Instance, InstanceState};
use muster_model::member::{Member, NewMember};
use muster_model::operation::Operation;
use muster_model::operation_input::{OperationInput, RequestedCapacity};
use serde_json::json;

use super::choose::removed;
use super::fit::{Group, allocations_with_members, ensure_active, ensure_groups_fit, existing_groups};
use super::growth::{Growth, ensure_can_grow, plan_growth};
use super::launch::{validate_capacity, within};
use super::{default_capacity, manifest_of, shape_word, subject, times, unknown_component};
use crate::artifact::{Start, ensure_release_startable};
use crate::member::{quorum, requested_told};
use crate::operation::{self, Submission, Wrote, deadline, item_of, submit_with};
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `instance_scale`.
pub async fn scale(cx: &Cx, project: &str, reference: &str, body: InstanceScale) -> Result<PreparedCommand> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::InstanceScale, instance.scope(), "instance")?;
    scaled(cx, project, instance, body).await
}

/// Prepares a scale; the caller has authorized it.
pub(super) async fn scaled(
    cx: &Cx,
    project: &str,
    instance: Instance,
    body: InstanceScale,
) -> Result<PreparedCommand> {
    running(&instance, "scaled")?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    let deadline_at = deadline(cx, body.ready_until, SignedDuration::from_hours(1))?;
    let store = &cx.platform.store;
    let (components, living, operations) = tokio::try_join!(
        store.component_list(instance.id),
        store.member_living(instance.id),
        store.operations_locking(instance.id.uuid())
    )?;
    let mut changes = Vec::new();
    for (index, ask) in body.components.iter().enumerate() {
        if body.components[..index].iter().any(|before| before.component_key == ask.component_key) {
            return Err(Error::field(format!("/components/{index}/component_key"), "it is given twice"));
        }
        changes.push(change(cx, project, &manifest, &instance, &components, index, ask).await?);
    }
    if changes.iter().all(|change| change.more == 0) {
        let why = "it already has this many members: nothing to scale";
        return Err(Error::new(Code::InvalidState, why));
    }
    let grows: BTreeSet<&str> =
        changes.iter().filter(|change| change.more > 0).map(|change| change.key.as_str()).collect();
    ensure_release_startable(cx, instance.app_version_id, &manifest, Some(&grows), Start::Existing).await?;
    ensure_fits(cx, &instance, &manifest, &components, &living, &changes).await?;
    let growth: Vec<Growth<'_>> = changes.iter().filter_map(|change| change.growth(&manifest)).collect();
    ensure_can_grow(cx, instance.project_id, &growth, changes.iter().any(|change| change.more < 0)).await?;
    let chosen = choose(cx.now, &manifest, &components, &changes, &living, &operations)?;
    let ids: BTreeMap<String, Vec<MemberId>> = changes
        .iter()
        .map(|change| (change.key.clone(), (0..change.more.max(0)).map(|_| cx.platform.env.id()).collect()))
        .collect();
    let mut touched: Vec<String> = ids.values().flatten().map(ToString::to_string).collect();
    touched.extend(chosen.iter().map(|member| member.id.to_string()));
    let mut plan = operation::plan(&SCALE, &touched, deadline_at);
    plan.capacity = Some(grown(&changes));
    let existing = body.dry_run.unwrap_or(false).then(|| {
        let leaving = chosen.iter().map(|member| member.name.clone());
        [instance.name.clone()].into_iter().chain(leaving).collect()
    });
    let exclusive = shape_word(&instance.shape) == muster_manifest::Shape::Baremetal;
    let (project_id, release) = (instance.project_id, instance.app_version_id);
    plan_growth(cx, project_id, release, exclusive, &growth, existing, &mut plan).await?;
    let reason = body.reason.unwrap_or_default();
    let told_counts: BTreeMap<&str, i64> =
        changes.iter().map(|change| (change.key.as_str(), change.desired)).collect();
    let counts_before: BTreeMap<&str, i64> =
        components.iter().map(|component| (component.key.as_str(), component.desired)).collect();
    let capacity = changes.iter().map(|change| (change.key.clone(), amounts(change.each))).collect();
    let submission = Submission {
        definition: &SCALE,
        scope: instance.scope(),
        subject: subject(&instance),
        exclusive_locks: vec![instance.id.uuid()],
        shared_locks: Vec::new(),
        items: Vec::new(),
        input: OperationInput {
            app_version_id: Some(instance.app_version_id),
            shape: Some(instance.shape.clone()),
            capacity: Some(RequestedCapacity::ByComponent(capacity)),
            ..OperationInput::because(&reason)
        },
        deadline_at,
        event_data: json!({"name": instance.name, "components": told_counts, "reason": reason}),
        before: Some(json!({"components": counts_before})),
        event: EventType::OperationAccepted,
        supersedes: Vec::new(),
        plan,
        dry_run: body.dry_run.unwrap_or(false),
    };
    let write = Write { cx: cx.clone(), instance, manifest, changes, ids };
    Ok(submit_with(cx, submission, move |tx, operation| Box::pin(write.write(tx, operation))))
}

/// Ensures that the instance is running.
pub(super) fn running(instance: &Instance, what: &str) -> Result<()> {
    if instance.state == InstanceState::Running {
        return Ok(());
    }
    let why = format!("{} is {}, and only a running instance can be {what}", instance.name, instance.state);
    Err(Error::new(Code::InvalidState, why))
}

/// Change of a component.
struct Change {
    key: String,
    /// New desired number of members.
    desired: i64,
    /// Difference to the previous number; negative if fewer.
    more: i64,
    each: Capacity,
    /// New override of the capacity per new member.
    overridden: Option<Capacity>,
    allocation_id: Option<AllocationId>,
    allocation: Option<muster_model::allocation::Allocation>,
    /// JSON pointer to the capacity in the request, if given.
    pointer: Option<String>,
}

impl Change {
    fn growth<'g>(&'g self, manifest: &'g Manifest) -> Option<Growth<'g>> {
        Some(Growth {
            component: manifest.component(&self.key).filter(|_| self.more > 0)?,
            count: self.more,
            each: self.each,
            makes_room: self.allocation.is_none(),
            pointer: self.pointer.clone(),
        })
    }
}

async fn change(
    cx: &Cx,
    project: &str,
    manifest: &Manifest,
    instance: &Instance,
    components: &[Component],
    index: usize,
    ask: &ComponentAsk,
) -> Result<Change> {
    let at = |field: &str| format!("/components/{index}/{field}");
    let key = &ask.component_key;
    let said =
        manifest.component(key).ok_or_else(|| unknown_component(&at("component_key"), manifest, key))?;
    let component = components.iter().find(|component| component.key == *key);
    let (was, mut each, held) = match component {
        Some(component) => (
            component.desired,
            default_capacity(manifest, component).unwrap_or(said.capacity),
            component.allocation_id,
        ),
        // The component is new in this release.
        None => (0, said.capacity, None),
    };
    let desired = ask.count.unwrap_or(was);
    within(&at("count"), said, desired)?;
    let overridden = match ask.capacity {
        Some(capacity) => Some(validate_capacity(&at("capacity"), capacity)?),
        None => None,
    };
    each = overridden.unwrap_or(each);
    let allocation = match &ask.allocation {
        Some(name) => Some(cx.allocation_for(project, name, instance).await?),
        None => match held {
            Some(id) => cx.platform.store.allocation_lookup(id).await?,
            None => None,
        },
    };
    if let Some(allocation) = allocation.as_ref().filter(|_| desired > was) {
        ensure_active(&at("allocation"), allocation)?;
        if allocation.shape.as_str() != instance.shape {
            let why = format!(
                "{} is {}, and the instance is in allocations of the shape {}",
                allocation.name,
                allocation.shape.as_str(),
                instance.shape
            );
            return Err(Error::field(at("allocation"), why));
        }
    }
    let allocation_id = allocation.as_ref().map(|allocation| allocation.id);
    let pointer = overridden.map(|_| at("capacity"));
    let more = desired - was;
    Ok(Change { key: key.clone(), desired, more, each, overridden, allocation_id, allocation, pointer })
}

/// Ensures that the resulting instance fits.
async fn ensure_fits(
    cx: &Cx,
    instance: &Instance,
    manifest: &Manifest,
    components: &[Component],
    living: &[Member],
    changes: &[Change],
) -> Result<()> {
    if changes.iter().all(|change| change.more <= 0) {
        return Ok(());
    }
    let held = allocations_with_members(cx, living).await?;
    // Members to be removed free no capacity before they are gone.
    let mut groups = existing_groups(manifest, components, living, &held);
    for change in changes.iter().filter(|change| change.more > 0) {
        let allocation = change.allocation.as_ref();
        groups.push(Group { component: &change.key, count: change.more, each: change.each, allocation });
    }
    ensure_groups_fit(cx, manifest, shape_word(&instance.shape), &groups)
}

/// Selects the members to remove; returns an error if the component's quorum needs them.
fn choose(
    now: Timestamp,
    manifest: &Manifest,
    components: &[Component],
    changes: &[Change],
    living: &[Member],
    operations: &[Operation],
) -> Result<Vec<Member>> {
    let (leaving, going) = (quorum::leaving(operations), quorum::going(operations));
    // A replaced member leaves with its replacement: to choose it would remove none of the surplus.
    let replaced = quorum::replacing(operations, &BTreeSet::new());
    let stays = |member: &Member| !going.contains(&member.id) && !replaced.contains(&member.id);
    let mut chosen = Vec::new();
    for change in changes.iter().filter(|change| change.more < 0) {
        let fewer = usize::try_from(-change.more).unwrap_or_default();
        let of_it = living.iter().filter(|member| member.component_key == change.key && stays(member));
        let desired = usize::try_from(change.desired).unwrap_or_default();
        let out = removed(of_it.cloned().collect(), fewer, desired, now);
        let without: BTreeSet<MemberId> = out.iter().map(|member| member.id).collect();
        let component = components.iter().find(|component| component.key == change.key);
        if let (Some(said), Some(_)) = (manifest.component(&change.key), component)
            && let Some(why) = quorum::quorum_violation(said, change.desired, living, &leaving, &without)
        {
            return Err(Error::new(Code::InvalidState, why));
        }
        chosen.extend(out);
    }
    Ok(chosen)
}

/// Returns the total capacity of the new allocations.
fn grown(changes: &[Change]) -> muster_api::capacity::Capacity {
    let mut sum = muster_api::capacity::Capacity::default();
    for change in changes.iter().filter(|change| change.allocation_id.is_none()) {
        let more = times(change.each, change.more.max(0));
        sum.gpus += more.gpus;
        sum.cpus += more.cpus;
        sum.memory_mb += more.memory_mb;
        sum.disk_mb += more.disk_mb;
    }
    sum
}

struct Write {
    cx: Cx,
    instance: Instance,
    manifest: Manifest,
    changes: Vec<Change>,
    ids: BTreeMap<String, Vec<MemberId>>,
}

impl Write {
    /// Writes the change. Locks the components' rows first, in the order of their keys, so that the counts stay valid.
    async fn write(mut self, tx: &mut Tx, operation: &mut Operation) -> Wrote {
        self.changes.sort_by(|one, other| one.key.cmp(&other.key));
        let mut components = Vec::new();
        for change in &self.changes {
            tx.component_ensure(self.instance.id, &change.key).await?;
            let component = tx
                .component_change_desired(self.instance.id, &change.key, change.more, change.more.max(0))
                .await?;
            if component.desired != change.desired {
                let why =
                    "another request changed the number of members at this moment: read it again, and repeat";
                return Err(Error::new(Code::InvalidState, why));
            }
            if change.overridden.is_some() || component.allocation_id != change.allocation_id {
                let capacity = change.overridden.map(amounts).or(component.capacity);
                tx.component_place(self.instance.id, &change.key, capacity, change.allocation_id).await?;
            }
            components.push(component);
        }
        let living = tx.member_living_now(self.instance.id).await?;
        let operations = tx.operations_locking_now(self.instance.id.uuid()).await?;
        let chosen = choose(self.cx.now, &self.manifest, &components, &self.changes, &living, &operations)?;
        let mut added = Vec::new();
        for (change, component) in self.changes.iter().zip(&components) {
            let first = component.last_ordinal - change.more.max(0) + 1;
            for (ordinal, id) in (first..).zip(self.ids.get(&change.key).into_iter().flatten()) {
                let member = Member::requested(NewMember {
                    id: *id,
                    instance: &self.instance,
                    component_key: &change.key,
                    ordinal,
                    allocation_id: change.allocation_id,
                    operation_id: operation.id,
                    correlation_id: &self.cx.correlation_id,
                    now: self.cx.now,
                });
                tx.member_request(&member).await?;
                added.push(member);
            }
        }
        let ids = |members: &[Member]| members.iter().map(|member| member.id).collect::<Vec<_>>();
        operation.input.add = ids(&added);
        operation.input.remove = ids(&chosen);
        operation.items = added.iter().chain(&chosen).map(item_of).collect();
        Ok(added.iter().map(requested_told).collect())
    }
}
