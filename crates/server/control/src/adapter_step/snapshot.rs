//! The instance snapshot that accompanies each leased step: everything the adapter needs, read once for all steps of the
//! instance.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use muster_api::adapter_step::{LeasedStep, Snapshot, SnapshotMember};
use muster_db::{MemberPlace, StoreError};
use muster_ids::InstanceId;
use muster_manifest::Manifest;
use muster_model::adapter::AdapterStep;
use muster_model::instance::Component;
use muster_model::member::Member;

use super::{object, view};
use crate::instance::{default_capacity, manifest_of};
use crate::{Cx, Error, Result};

/// Returns the steps, each with its instance's snapshot. A step with an unreadable instance is left out and is offered again
/// when its lease expires, so that the other steps are not lost with it.
pub(super) async fn with_snapshots(cx: &Cx, steps: Vec<AdapterStep>) -> Result<Vec<LeasedStep>> {
    let mut read: BTreeMap<InstanceId, Snapshot> = BTreeMap::new();
    for step in &steps {
        if let Entry::Vacant(place) = read.entry(step.instance_id) {
            match snapshot(cx, step.instance_id).await {
                Ok(snapshot) => _ = place.insert(snapshot),
                Err(error) => {
                    tracing::error!(instance_id = %step.instance_id, why = error.detail, "the snapshot of an instance cannot be serialized");
                }
            }
        }
    }
    let leased = |step: &AdapterStep| {
        Some(LeasedStep { step: view(step), snapshot: read.get(&step.instance_id)?.clone() })
    };
    Ok(steps.iter().filter_map(leased).collect())
}

/// Reads an instance's snapshot.
pub(super) async fn snapshot(cx: &Cx, id: InstanceId) -> Result<Snapshot> {
    let store = &cx.platform.store;
    let gone = || Error::from(StoreError::Gone("instance".to_owned()));
    let instance = store.instance_lookup(id).await?.ok_or_else(gone)?;
    let (release, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    let (network, components, members, places, unwitnessed_at) = tokio::try_join!(
        store.network_lookup(instance.network_id),
        store.component_list(id),
        store.member_living(id),
        store.member_places(id),
        store.instance_unwitnessed_at(id)
    )?;
    let places: BTreeMap<_, _> = places.iter().map(|place| (place.member_id, place)).collect();
    let told = |member: &Member| {
        let place = places.get(&member.id).copied();
        let component = components.iter().find(|component| component.key == member.component_key);
        let (gpus, cpus, memory_mb) = holds(&manifest, component, member, place);
        let host = place.and_then(|place| place.host);
        let address = network.as_ref().zip(host).and_then(|(network, host)| network.address(host));
        SnapshotMember {
            id: member.id,
            component_key: member.component_key.clone(),
            name: member.name.clone(),
            state: member.state,
            health: member.known_health(),
            incarnation: member.incarnation,
            address: address.map(|address| address.to_string()),
            fenced: member.fenced,
            allocation_id: member.allocation_id,
            unreachable: place.is_some_and(|place| place.unreachable_since.is_some()),
            app_version_id: member.app_version_id,
            gpus,
            cpus,
            memory_mb,
            adapter_detail: object(&member.adapter_detail),
        }
    };
    Ok(Snapshot {
        instance_id: id,
        instance: instance.name.clone(),
        app: instance.app.clone(),
        app_version_id: release.id,
        app_version: release.name.clone(),
        config: object(&instance.config),
        manifest: object(&release.manifest),
        members: members.iter().map(told).collect(),
        unwitnessed_at,
    })
}

/// Returns a member's resources: its allocation's capacity where that was made for it alone, otherwise its share of a shared
/// one.
fn holds(
    manifest: &Manifest,
    component: Option<&Component>,
    member: &Member,
    place: Option<&MemberPlace>,
) -> (i64, i64, i64) {
    let asked = component.and_then(|component| default_capacity(manifest, component));
    let asked = asked.map(|asked| (asked.gpus, asked.cpus, asked.memory_mb));
    match (place.and_then(|place| place.capacity), asked) {
        (Some(held), _) if member.allocation_made => held,
        (Some(held), Some(asked)) => (asked.0.min(held.0), asked.1.min(held.1), asked.2.min(held.2)),
        (Some(held), None) => held,
        (None, asked) => asked.unwrap_or_default(),
    }
}
