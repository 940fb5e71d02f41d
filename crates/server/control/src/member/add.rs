//! Add members to a component.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use muster_api::member::{MemberAdd, MemberAllocation};
use muster_authz::Permission;
use muster_db::Tx;
use muster_engine::member::{amounts, definitions_for};
use muster_ids::{AllocationId, MemberId, TypedId as _};
use muster_manifest::{Capacity, Component as ComponentManifest, Manifest, Verb};
use muster_model::allocation::Allocation;
use muster_model::event::EventType;
use muster_model::instance::{Component, Instance};
use muster_model::member::{Member, NewMember};
use muster_model::operation::Operation;
use muster_model::operation_input::{OperationInput, RequestedCapacity};
use serde_json::json;

use super::order::ensure_running;
use super::requested_told;
use crate::artifact::{Start, ensure_release_startable};
use crate::instance::fit::{
    Group, allocations_with_members, ensure_active, ensure_groups_fit, existing_groups, shape_of,
};
use crate::instance::growth::{Growth, ensure_can_grow, plan_growth};
use crate::instance::launch::validate_capacity;
use crate::instance::{self, default_capacity, manifest_of, shape_word, unknown_component};
use crate::operation::{self, Subject, Submission, Wrote, deadline, item_of, submit_with};
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `member_add`.
pub async fn add(cx: &Cx, project: &str, reference: &str, body: MemberAdd) -> Result<PreparedCommand> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::MemberAdd, instance.scope(), "instance")?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    let key = body.component_key;
    let declared =
        manifest.component(&key).ok_or_else(|| unknown_component("/component_key", &manifest, &key))?;
    ensure_running(&instance)?;
    let deadline_at = deadline(cx, body.ready_until, SignedDuration::from_mins(30))?;
    let store = &cx.platform.store;
    let components = store.component_list(instance.id).await?;
    let component = components.iter().find(|component| component.key == key);
    let component = component.cloned().unwrap_or_else(|| empty_component(&instance, &key));
    let count = body.count.unwrap_or(1);
    ensure_count_within_max(declared, component.desired + count)?;
    let default = default_capacity(&manifest, &component).unwrap_or(declared.capacity);
    let pointer = matches!(body.allocation, Some(MemberAllocation::Capacity(_)))
        .then(|| "/allocation/capacity".to_owned());
    let (each, named) = match body.allocation {
        Some(MemberAllocation::Capacity(capacity)) => {
            (validate_capacity("/allocation/capacity", capacity)?, None)
        }
        Some(MemberAllocation::Id(id)) => (default, Some(cx.allocation_for(project, &id, &instance).await?)),
        None => match component.allocation_id {
            Some(id) => (default, store.allocation_lookup(id).await?),
            None => (default, None),
        },
    };
    if let Some(allocation) = &named {
        ensure_active("/allocation/id", allocation)?;
    }
    let grows = BTreeSet::from([key.as_str()]);
    ensure_release_startable(cx, instance.app_version_id, &manifest, Some(&grows), Start::Existing).await?;
    ensure_fits(cx, &instance, &manifest, &components, (&key, count, each), named.as_ref()).await?;
    let growth = [Growth { component: declared, count, each, makes_room: named.is_none(), pointer }];
    ensure_can_grow(cx, instance.project_id, &growth, false).await?;
    let ids: Vec<MemberId> = (0..count).map(|_| cx.platform.env.id()).collect();
    let (one, bulk) = definitions_for(Verb::Add);
    let definition = if ids.len() == 1 { one } else { bulk };
    let touched: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let mut plan = operation::plan(definition, &touched, deadline_at);
    plan.capacity = named.is_none().then(|| instance::times(each, count));
    let existing = body.dry_run.unwrap_or(false).then(|| vec![instance.name.clone()]);
    let exclusive = shape_word(&instance.shape) == muster_manifest::Shape::Baremetal;
    let (project_id, release) = (instance.project_id, instance.app_version_id);
    plan_growth(cx, project_id, release, exclusive, &growth, existing, &mut plan).await?;
    let event_data = json!({"name": instance.name, "component_key": key, "count": count,
                      "reason": body.reason.clone().unwrap_or_default()});
    let submission = Submission {
        definition,
        scope: instance.scope(),
        subject: instance::subject(&instance),
        exclusive_locks: Vec::new(),
        shared_locks: vec![instance.id.uuid()],
        items: Vec::new(),
        input: OperationInput {
            app_version_id: Some(instance.app_version_id),
            capacity: Some(RequestedCapacity::Each(amounts(each))),
            shape: Some(instance.shape.clone()),
            ..OperationInput::because(body.reason.unwrap_or_default())
        },
        deadline_at,
        event_data,
        before: Some(json!({"desired": component.desired})),
        event: EventType::OperationAccepted,
        supersedes: Vec::new(),
        plan,
        dry_run: body.dry_run.unwrap_or(false),
    };
    let submission = match ids.as_slice() {
        [only] => Submission {
            subject: Subject {
                kind: "member",
                uuid: only.uuid(),
                id: only.to_string(),
                ..submission.subject
            },
            exclusive_locks: vec![only.uuid()],
            ..submission
        },
        _ => submission,
    };
    let allocation_id = named.map(|allocation| allocation.id);
    let write = Write { cx: cx.clone(), instance, declared: declared.clone(), ids, allocation_id };
    Ok(submit_with(cx, submission, move |tx, operation| Box::pin(write.write(tx, operation))))
}

/// Ensures that the component may have this many members.
fn ensure_count_within_max(declared: &ComponentManifest, desired: i64) -> Result<()> {
    if desired <= declared.count.max {
        return Ok(());
    }
    let why =
        format!("{} can have {} members, but {desired} would be desired", declared.key, declared.count.max);
    Err(Error::field("/count", why))
}

/// Returns an empty component, for one that is new in the instance's release.
fn empty_component(instance: &Instance, key: &str) -> Component {
    Component {
        instance_id: instance.id,
        key: key.to_owned(),
        desired: 0,
        last_ordinal: 0,
        capacity: None,
        allocation_id: None,
    }
}

/// Ensures that the instance with the new members fits.
async fn ensure_fits(
    cx: &Cx,
    instance: &Instance,
    manifest: &Manifest,
    components: &[Component],
    (key, count, each): (&str, i64, Capacity),
    named: Option<&Allocation>,
) -> Result<()> {
    let living = cx.platform.store.member_living(instance.id).await?;
    let held = allocations_with_members(cx, &living).await?;
    let mut groups = existing_groups(manifest, components, &living, &held);
    groups.push(Group { component: key, count, each, allocation: named });
    let shape = shape_word(&instance.shape);
    if let Some(other) = named.filter(|allocation| shape_of(allocation.shape) != shape) {
        let why = format!(
            "{} is {}, and the instance is in allocations of the shape {}",
            other.name,
            other.shape.as_str(),
            instance.shape
        );
        return Err(Error::field("/allocation/id", why));
    }
    ensure_groups_fit(cx, manifest, shape, &groups)
}

struct Write {
    cx: Cx,
    instance: Instance,
    declared: ComponentManifest,
    ids: Vec<MemberId>,
    allocation_id: Option<AllocationId>,
}

impl Write {
    async fn write(self, tx: &mut Tx, operation: &mut Operation) -> Wrote {
        let key = &self.declared.key;
        let count = i64::try_from(self.ids.len()).unwrap_or(i64::MAX);
        tx.component_ensure(self.instance.id, key).await?;
        let component = tx.component_change_desired(self.instance.id, key, count, count).await?;
        ensure_count_within_max(&self.declared, component.desired)?;
        let (mut told, mut members) = (Vec::new(), Vec::new());
        for (index, id) in (1..).zip(&self.ids) {
            let member = Member::requested(NewMember {
                id: *id,
                instance: &self.instance,
                component_key: key,
                ordinal: component.last_ordinal - count + index,
                allocation_id: self.allocation_id,
                operation_id: operation.id,
                correlation_id: &operation.correlation_id,
                now: self.cx.now,
            });
            tx.member_request(&member).await?;
            told.push(requested_told(&member));
            members.push(member);
        }
        match members.as_slice() {
            [only] => operation.subject_name = only.name.clone(),
            _ => operation.items = members.iter().map(item_of).collect(),
        }
        Ok(told)
    }
}
