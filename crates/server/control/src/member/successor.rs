//! Successors of replaced members: their rows, and the operation's input.

use std::collections::{BTreeMap, BTreeSet};

use muster_db::{MemberPlace, Result, Tx};
use muster_engine::member::amounts;
use muster_engine::{has_come, successor_of};
use muster_ids::{AllocationId, MemberId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::event::NewEvent;
use muster_model::instance::{Component, Instance};
use muster_model::member::{Member, MemberState, NewMember};
use muster_model::operation::{Operation, OperationKind};
use muster_model::operation_input::{OperationInput, RequestedCapacity};

use super::requested_told;
use crate::Cx;
use crate::instance::default_capacity;

/// Context for replacing members of one instance.
pub(crate) struct Successors {
    pub(crate) instance: Instance,
    pub(crate) manifest: Manifest,
    pub(crate) components: Vec<Component>,
    /// Members on unreachable nodes; their successors are placed elsewhere.
    pub(crate) unreachable: BTreeSet<MemberId>,
}

impl Successors {
    /// Returns the members on unreachable nodes.
    pub(crate) fn unreachable(places: &[MemberPlace]) -> BTreeSet<MemberId> {
        let lost = places.iter().filter(|place| place.unreachable_since.is_some());
        lost.map(|place| place.member_id).collect()
    }

    /// Returns the operation's input for the successors, by component, as members of several may be replaced at once.
    pub(crate) fn input(&self, force: bool, reason: &str) -> OperationInput {
        let capacity = |component: &Component| {
            Some((component.key.clone(), amounts(default_capacity(&self.manifest, component)?)))
        };
        OperationInput {
            force,
            app_version_id: Some(self.instance.app_version_id),
            shape: Some(self.instance.shape.clone()),
            capacity: Some(RequestedCapacity::ByComponent(
                self.components.iter().filter_map(capacity).collect(),
            )),
            ..OperationInput::because(reason)
        }
    }

    /// Returns the successor's allocation: the same one if it is the project's own and its node is reachable, otherwise
    /// none, and the platform creates one.
    fn goes_into(&self, old: &Member) -> Option<AllocationId> {
        old.allocation_id.filter(|_| !old.allocation_made && !self.unreachable.contains(&old.id))
    }

    /// Inserts the successors and names them in the operation. Returns the events. If a superseded replacement has already
    /// created a successor that joined, that one is kept: another would exceed the component's maximum.
    pub(crate) async fn write(
        &self,
        cx: &Cx,
        tx: &mut Tx,
        operation: &mut Operation,
        old: &[Member],
        superseded: &[Operation],
    ) -> Result<Vec<NewEvent>> {
        let (mut told, mut named) = (Vec::new(), BTreeMap::new());
        for old in old {
            if let Some(successor) = arrived(tx, old, superseded).await? {
                named.insert(old.id, successor);
                continue;
            }
            // A member that was never active is not part of the desired number; its successor is.
            let more = i64::from(old.never_worked());
            let component =
                tx.component_change_desired(self.instance.id, &old.component_key, more, 1).await?;
            let new = Member::requested(NewMember {
                id: cx.platform.env.id(),
                instance: &self.instance,
                component_key: &old.component_key,
                ordinal: component.last_ordinal,
                allocation_id: self.goes_into(old),
                operation_id: operation.id,
                correlation_id: &operation.correlation_id,
                now: cx.now,
            });
            tx.member_request(&new).await?;
            named.insert(old.id, new.id);
            told.push(requested_told(&new));
        }
        match named.values().next().filter(|_| operation.items.is_empty()) {
            Some(only) => operation.input.successor = Some(*only),
            None => operation.input.successors = named,
        }
        Ok(told)
    }
}

/// Returns the successor that a superseded replacement has created, if it has joined and stays.
async fn arrived(tx: &mut Tx, old: &Member, superseded: &[Operation]) -> Result<Option<MemberId>> {
    let replaces = |operation: &&Operation| {
        operation.kind == OperationKind::MemberReplace && operation.subject_id == old.id.uuid()
    };
    let Some(replace) = superseded.iter().find(replaces) else { return Ok(None) };
    let Some(id) = successor_of(replace) else { return Ok(None) };
    let stays = |successor: &Member| {
        let leaves =
            matches!(successor.state, MemberState::Failed | MemberState::Removing | MemberState::Removed);
        has_come(replace, successor) && !leaves
    };
    Ok(tx.member_now(id).await?.filter(stays).map(|successor| successor.id))
}
