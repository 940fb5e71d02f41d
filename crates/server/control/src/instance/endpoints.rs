//! Show an instance's endpoints: the ports of its manifest at each active member.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use muster_api::instance::{InstanceEndpoint, InstanceEndpoints};
use muster_authz::Permission;
use muster_db::MemberPlace;
use muster_manifest::{Expose, Manifest};
use muster_model::cell::NodePort;
use muster_model::member::{Member, MemberState};
use serde_json::json;

use super::manifest_of;
use crate::{Answer, Cx, Result};

/// Handles `instance_endpoints`.
pub async fn endpoints(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let instance = cx.instance(project, reference).await?;
    cx.authorize(Permission::InstanceEndpoints, instance.scope(), "instance")?;
    let store = &cx.platform.store;
    let (network, members, places) = tokio::try_join!(
        store.network_lookup(instance.network_id),
        store.member_living(instance.id),
        store.member_places(instance.id)
    )?;
    let places: BTreeMap<_, _> = places.iter().map(|place| (place.member_id, place)).collect();
    let mut manifests: BTreeMap<_, Manifest> = BTreeMap::new();
    let mut endpoints = Vec::new();
    for member in members.iter().filter(|member| member.state == MemberState::Active && !member.fenced) {
        let Some(place) = places.get(&member.id).copied() else { continue };
        let host = place.host;
        let Some(address) = network.as_ref().zip(host).and_then(|(network, host)| network.address(host))
        else {
            continue;
        };
        // The release that a member actually runs determines its ports.
        let version = member.app_version_id.unwrap_or(instance.app_version_id);
        if let Entry::Vacant(place) = manifests.entry(version) {
            place.insert(manifest_of(cx, &instance, version).await?.1);
        }
        let ports = match member.cell_id {
            Some(cell) => store.node_port_of(cell).await?,
            None => Vec::new(),
        };
        endpoints.extend(at(member, place, &address.to_string(), &manifests[&version], &ports));
    }
    Ok(Answer::new(&InstanceEndpoints { endpoints }))
}

fn at(
    member: &Member,
    place: &MemberPlace,
    address: &str,
    manifest: &Manifest,
    node_ports: &[NodePort],
) -> Vec<InstanceEndpoint> {
    let Some(component) = manifest.component(&member.component_key) else { return Vec::new() };
    let endpoint = |port: &muster_manifest::Port| {
        let protocol = json!(port.protocol).as_str().unwrap_or("tcp").to_owned();
        let leads = |node: &&NodePort| node.cell_port == i64::from(port.port) && node.protocol == protocol;
        let node_port = node_ports.iter().find(leads).filter(|_| port.expose == Expose::Node);
        InstanceEndpoint {
            name: port.name.clone(),
            member: member.name.clone(),
            component_key: member.component_key.clone(),
            address: address.to_owned(),
            port: i64::from(port.port),
            node_address: node_port.and_then(|_| place.node_address.clone()),
            node_port: node_port.map(|port| port.port),
            protocol,
        }
    };
    component.runtime.ports.iter().map(endpoint).collect()
}
