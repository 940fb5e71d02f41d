//! Instances: apps that run in a project. The commands record the desired state; the engine provisions it.

mod apply;
mod choose;
mod create;
pub mod decommission;
mod endpoints;
pub(crate) mod fit;
mod get;
pub(crate) mod growth;
pub(crate) mod launch;
mod list;
mod rollback;
mod scale;
mod update;
mod upgrade;

pub use apply::apply;
pub use create::create;
pub use decommission::decommission;
pub use endpoints::endpoints;
pub use get::get;
pub use list::list;
pub use rollback::rollback;
pub use scale::scale;
pub use update::update;
pub use upgrade::upgrade;

use std::collections::BTreeMap;

use muster_api::instance as api;
use muster_db::{MemberCount, StoreError};
use muster_engine::member::amounts;
use muster_ids::{AppVersionId, TypedId as _};
use muster_manifest::{Capacity, Manifest, Quorum, Shape};
use muster_model::allocation::AllocationShape;
use muster_model::app::AppVersion;
use muster_model::instance::{Component, ComponentCounts, Health, Instance, InstanceFailure, health_of};
use muster_model::member::{Member, MemberState};
use muster_model::node;

use crate::adapter_step::object;
use crate::operation::Subject;
use crate::{Cx, Error, Result, app_version};

/// Returns the subject of an operation on an instance.
pub(crate) fn subject(instance: &Instance) -> Subject {
    Subject {
        kind: "instance",
        uuid: instance.id.uuid(),
        id: instance.id.to_string(),
        name: instance.name.clone(),
        path: path(instance),
    }
}

pub fn path(instance: &Instance) -> String {
    format!("/v1/projects/{}/app-instances/{}", instance.project_id, instance.id)
}

/// Returns a past, current or future release of an instance, with its manifest. The release's state does not matter to
/// running members.
pub(crate) async fn manifest_of(
    cx: &Cx,
    instance: &Instance,
    version: AppVersionId,
) -> Result<(AppVersion, Manifest)> {
    let found = cx.platform.store.app_version_of_instance(version).await?;
    let of_its_app = found.filter(|release| release.app_id == instance.app_id);
    let release = of_its_app.ok_or_else(|| Error::from(StoreError::Corrupt("the release of an instance")))?;
    let manifest = app_version::manifest_of(&release)?;
    Ok((release, manifest))
}

/// Returns the capacity per member of a component: the instance's override, or else the manifest's.
pub(crate) fn default_capacity(manifest: &Manifest, component: &Component) -> Option<Capacity> {
    component.capacity.map(amounts_of).or_else(|| Some(manifest.component(&component.key)?.capacity))
}

/// Something to count: a single member, or a group of equal ones.
pub(crate) trait Counted {
    /// Its component.
    fn component(&self) -> &str;
    /// Its state.
    fn state(&self) -> MemberState;
    /// Its last known health.
    fn health(&self) -> Health;
}

impl Counted for Member {
    fn component(&self) -> &str {
        &self.component_key
    }

    fn state(&self) -> MemberState {
        self.state
    }

    fn health(&self) -> Health {
        self.known_health()
    }
}

impl Counted for MemberCount {
    fn component(&self) -> &str {
        &self.component_key
    }

    fn state(&self) -> MemberState {
        self.state
    }

    fn health(&self) -> Health {
        self.health
    }
}

/// Returns the state of an instance's components.
pub(crate) fn standings<'c, C: Counted + 'c>(
    manifest: &Manifest,
    components: &[Component],
    members: impl IntoIterator<Item = (&'c C, i64)>,
) -> BTreeMap<String, ComponentCounts> {
    let standing = |component: &Component| {
        let said = manifest.component(&component.key);
        let quorum =
            said.and_then(|said| said.quorum).map_or(0, |quorum: Quorum| quorum.of(component.desired));
        let min = said.map_or(0, |said| said.count.min);
        ComponentCounts { desired: component.desired, min, quorum, ..ComponentCounts::default() }
    };
    let mut standings: BTreeMap<String, ComponentCounts> =
        components.iter().map(|component| (component.key.clone(), standing(component))).collect();
    for (member, count) in members {
        if let Some(standing) = standings.get_mut(member.component()) {
            standing.count(member.state(), member.health(), count);
        }
    }
    standings
}

/// Parses the stored shape of allocations.
pub(crate) fn shape(word: &str) -> AllocationShape {
    match word {
        "baremetal" => AllocationShape::Baremetal,
        _ => AllocationShape::GpuSlice,
    }
}

/// Parses the stored shape as the manifest's type.
pub(crate) fn shape_word(word: &str) -> Shape {
    match word {
        "baremetal" => Shape::Baremetal,
        _ => Shape::GpuSlice,
    }
}

/// Converts amounts of resources to the capacity of a manifest.
pub(crate) fn amounts_of(capacity: node::Capacity) -> Capacity {
    let node::Capacity { gpus, cpus, memory_mb, disk_mb } = capacity;
    Capacity { gpus, cpus, memory_mb, disk_mb }
}

/// Multiplies a capacity.
pub(crate) fn times(each: Capacity, count: i64) -> node::Capacity {
    node::Capacity {
        gpus: each.gpus.saturating_mul(count),
        cpus: each.cpus.saturating_mul(count),
        memory_mb: each.memory_mb.saturating_mul(count),
        disk_mb: each.disk_mb.saturating_mul(count),
    }
}

/// Returns the error for a component that the release does not have.
pub(crate) fn unknown_component(field: &str, manifest: &Manifest, key: &str) -> Error {
    let known: Vec<&str> = manifest.components.iter().map(|component| component.key.as_str()).collect();
    let why = format!(
        "{} {} has no component {key:?}; it has {}",
        manifest.app,
        manifest.version,
        known.join(", ")
    );
    Error::field(field, why)
}

/// Returns the view with its topology, which needs queries.
async fn view(cx: &Cx, instance: &Instance) -> Result<api::Instance> {
    let store = &cx.platform.store;
    let (components, counts) =
        tokio::try_join!(store.component_list(instance.id), store.member_count(instance.id))?;
    let (release, manifest) = manifest_of(cx, instance, instance.app_version_id).await?;
    Ok(shown(instance, &release.name, &manifest, &components, &counts))
}

fn shown(
    instance: &Instance,
    app_version: &str,
    manifest: &Manifest,
    components: &[Component],
    counts: &[MemberCount],
) -> api::Instance {
    let standings = standings(manifest, components, counts.iter().map(|count| (count, count.count)));
    let component = |component: &Component| {
        let standing = standings.get(&component.key).copied().unwrap_or_default();
        let of_it = counts.iter().filter(|count| count.component_key == component.key);
        let in_state = |state| of_it.clone().filter(move |count| count.state == state);
        api::Component {
            component_key: component.key.clone(),
            desired: component.desired,
            current: in_state(MemberState::Active).map(|count| count.count).sum(),
            members: of_it.clone().map(|count| count.count).sum(),
            health: health_of(&[standing]),
            capacity: default_capacity(manifest, component).map(amounts).unwrap_or_default(),
            allocation_id: component.allocation_id,
        }
    };
    api::Instance {
        id: instance.id,
        tenant_id: instance.tenant_id,
        project_id: instance.project_id,
        name: instance.name.clone(),
        labels: instance.labels.clone(),
        app_id: instance.app_id,
        app: instance.app.clone(),
        app_version_id: instance.app_version_id,
        app_version: app_version.to_owned(),
        previous_version_id: instance.previous_version_id,
        config: object(&instance.config),
        operator_service_account: instance.operator_account_id,
        network_id: instance.network_id,
        bound_capacity_shape: shape(&instance.shape),
        state: instance.state,
        health: instance.health,
        health_message: instance.health_message.clone(),
        health_since: instance.health_since,
        topology: api::Topology {
            mode: instance.topology_mode.clone(),
            components: components.iter().map(component).collect(),
        },
        repair: instance.repair,
        protected: instance.protected,
        expires_at: instance.expires_at,
        reason: instance.reason.map(|reason| reason.as_str().to_owned()),
        advice: instance.reason.map(InstanceFailure::advice).map(str::to_owned),
        message: instance.message.clone(),
        running_witness_id: instance.running_witness_id,
        stopped_witness_id: instance.stopped_witness_id,
        operation_id: instance.operation_id,
        reconciled_at: instance.reconciled_at,
        created_at: instance.created_at,
        updated_at: instance.updated_at,
        version: instance.version,
    }
}
