//! Members of instances. The commands record the desired state; the engine provisions it.

mod add;
mod drain;
mod get;
mod list;
pub(crate) mod moved;
mod order;
pub(crate) mod quorum;
mod recover;
mod remove;
mod replace;
mod resume;
pub(crate) mod successor;
mod suits;

pub use add::add;
pub use drain::drain;
pub use get::get;
pub use list::list;
pub use recover::recover;
pub use remove::remove;
pub use replace::replace;
pub use resume::resume;

use std::collections::BTreeSet;

use muster_api::member as api;
use muster_db::MemberPlace;
use muster_ids::{MemberId, TypedId as _};
use muster_model::assess::HealthReason;
use muster_model::cell::Network;
use muster_model::event::{EventType, NewEvent};
use muster_model::member::{Member, MemberFailure};
use serde_json::json;

use crate::adapter_step::object;
use crate::instance::shape;
use crate::operation::Subject;

/// Returns the members with a dead cell, as reported by their nodes' agents. They do not count as active.
pub(crate) fn lost_members(places: &[MemberPlace]) -> BTreeSet<MemberId> {
    places.iter().filter(|place| place.dead_since.is_some()).map(|place| place.member_id).collect()
}

/// Returns the subject of an operation on a member.
fn subject(member: &Member) -> Subject {
    Subject {
        kind: "member",
        uuid: member.id.uuid(),
        id: member.id.to_string(),
        name: member.name.clone(),
        path: path(member),
    }
}

pub(crate) fn path(member: &Member) -> String {
    format!("/v1/projects/{}/app-instances/{}/members/{}", member.project_id, member.instance_id, member.id)
}

fn view(member: &Member, network: Option<&Network>, place: Option<&MemberPlace>) -> api::Member {
    let host = place.and_then(|place| place.host);
    let current = member.health_incarnation == member.incarnation;
    let reason = member.health_reason.filter(|_| current);
    let cell = place.and_then(|place| place.cell.as_ref());
    let cell = cell.filter(|cell| cell.incarnation == member.incarnation);
    let services = cell.into_iter().flat_map(|cell| &cell.services);
    let address = network.zip(host).and_then(|(network, host)| network.address(host));
    api::Member {
        id: member.id,
        instance_id: member.instance_id,
        component_key: member.component_key.clone(),
        name: member.name.clone(),
        state: member.state,
        health: member.known_health(),
        health_message: member.health_message.clone().filter(|_| current),
        health_reason: reason.map(|reason| reason.as_str().to_owned()),
        health_advice: reason.map(HealthReason::advice).map(str::to_owned),
        health_since: member.health_since.filter(|_| current),
        services: services.map(crate::cell::service_status).collect(),
        free_at: member.free_at,
        incarnation: member.incarnation,
        allocation_id: member.allocation_id,
        allocation_made: member.allocation_made,
        bound_capacity_shape: member.bound_capacity_shape.as_deref().map(shape),
        node_id: place.and_then(|place| place.node_id),
        cell_id: member.cell_id,
        address: address.map(|address| address.to_string()),
        app_version_id: member.app_version_id,
        adapter_detail: object(&member.adapter_detail),
        failure_reason: member.failure_reason.map(|reason| reason.as_str().to_owned()),
        advice: member.failure_reason.map(MemberFailure::advice).map(str::to_owned),
        message: member.message.clone(),
        fenced: member.fenced,
        active_witness_id: member.active_witness_id,
        drained_witness_id: member.drained_witness_id,
        removed_witness_id: member.removed_witness_id,
        last_operation_id: member.operation_id,
        correlation_id: member.correlation_id.clone(),
        created_at: member.created_at,
        updated_at: member.updated_at,
        version: member.version,
    }
}

/// Returns the event for a requested member.
pub(crate) fn requested_told(member: &Member) -> NewEvent {
    let data = json!({"name": member.name, "component_key": member.component_key, "instance_id": member.instance_id,
                      "allocation_id": member.allocation_id, "operation_id": member.operation_id});
    (EventType::MemberRequested, path(member), data)
}

#[cfg(test)]
pub(crate) mod tests {
    use muster_engine::{OperationRequest, accept};
    use muster_ids::Env;
    use muster_manifest::{Component, Manifest};
    use muster_model::Scope;
    use muster_model::audit::Actor;
    use muster_model::instance::{Health, Instance, NewInstance};
    use muster_model::member::{MemberState, NewMember};
    use muster_model::operation::{Operation, OperationKind};
    use muster_model::operation_input::OperationInput;
    use uuid::Uuid;

    use super::*;

    /// A member of the component `worker`.
    pub(crate) fn member(env: &Env, state: MemberState, health: Health) -> Member {
        let instance = Instance::requested(NewInstance {
            id: env.id(),
            tenant_id: env.id(),
            project_id: env.id(),
            app_id: env.id(),
            app_version_id: env.id(),
            operator_account_id: env.id(),
            network_id: env.id(),
            name: "a".to_owned(),
            now: env.now(),
        });
        let new = NewMember {
            id: env.id(),
            instance: &instance,
            component_key: "worker",
            ordinal: 1,
            allocation_id: None,
            operation_id: env.id(),
            correlation_id: "",
            now: env.now(),
        };
        Member { state, health, health_incarnation: 1, incarnation: 1, ..Member::requested(new) }
    }

    /// A manifest with this component, which has no quorum.
    pub(crate) fn manifest(key: &str) -> Manifest {
        serde_json::from_value(json!({
            "app": "thing", "version": "1", "artifact_kind": "controller",
            "compatibility": {"requires_capacity_shape": ["gpu_slice"]},
            "components": [{"key": key, "count": {"min": 0, "max": 8}, "capacity": {"cpus": 1, "memory_mb": 64},
                            "runtime": {"root": {"host": ["/usr"]}}}],
            "operations": ["drain", "resume", "replace", "recover"],
        }))
        .expect("a manifest")
    }

    /// A component without a quorum.
    pub(crate) fn component(key: &str) -> Component {
        manifest(key).components.remove(0)
    }

    /// An empty operation of a kind.
    pub(crate) fn operation(env: &Env, kind: OperationKind) -> Operation {
        let definition = muster_engine::definition(kind).expect("a known kind");
        accept(
            definition,
            OperationRequest {
                id: env.id(),
                scope: Scope::Project(env.id(), env.id()),
                subject_kind: "instance",
                subject_id: Uuid::nil(),
                subject_name: String::new(),
                exclusive_locks: Vec::new(),
                shared_locks: Vec::new(),
                timeline: muster_model::event::Timeline::default(),
                asked_by: Actor { kind: "user".to_owned(), id: String::new(), name: String::new() },
                correlation_id: String::new(),
                input: OperationInput::default(),
                deadline_at: env.now(),
                parent_id: None,
                now: env.now(),
            },
        )
    }
}
