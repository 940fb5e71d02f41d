//! The input of an operation: the request, and the engine's notes for the next turn.

use std::collections::BTreeMap;

use muster_ids::{AppVersionId, MemberId, OperationId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::node::Capacity;
use crate::operation::{OperationKind, StepState};

/// Input of an operation: one struct for all kinds, because the steps that read it are shared by many of them. A field that
/// a kind does not use is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationInput {
    /// Reason given by the requester, or why the platform opened it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Whether nothing waits for an orderly end.
    #[serde(skip_serializing_if = "is_false")]
    pub force: bool,

    /// Release of new members, or the target of an upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version_id: Option<AppVersionId>,
    /// Release before an upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<AppVersionId>,
    /// Configuration of an upgrade, if it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Shape of the allocations of new members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Capacity of new members, or the new size of an allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RequestedCapacity>,

    /// Members that a scaling adds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<MemberId>,
    /// Members that a scaling removes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<MemberId>,
    /// Successor of the replaced member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<MemberId>,
    /// Successors, by replaced member.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub successors: BTreeMap<MemberId, MemberId>,
    /// Whether the successor must work before the old member stops.
    #[serde(skip_serializing_if = "is_false")]
    pub successor_first: bool,
    /// Name of the member that the new one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Whether a new member waits for capacity.
    #[serde(skip_serializing_if = "is_false")]
    pub wait_for_room: bool,
    /// Whether a new member joins in the order of the components.
    #[serde(skip_serializing_if = "is_false")]
    pub in_order: bool,
    /// Removed members that were already subtracted from the desired count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncounted: Vec<MemberId>,
    /// Whether the member is removed with its whole instance.
    #[serde(skip_serializing_if = "is_false")]
    pub with_instance: bool,

    /// Whether a release removes the members in the allocation.
    #[serde(skip_serializing_if = "is_false")]
    pub cascade: bool,
    /// Whether a release was opened because the allocation expired.
    #[serde(skip_serializing_if = "is_false")]
    pub expired: bool,
    /// Whether a resize may restart cells.
    #[serde(skip_serializing_if = "is_false")]
    pub restart: bool,

    /// Whether an audit of a node removes orphans.
    #[serde(skip_serializing_if = "is_false")]
    pub repair: bool,
    /// Statement of an operator that an unreachable node is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attest: Option<String>,

    /// Operation whose quarantine this one of the platform ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<OperationId>,
    /// Effects of the operation that it superseded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited: Option<Inherited>,
    /// The parent's step, purpose and retry epoch for which it was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn_key: Option<String>,
    /// Number of retries after a block. Tasks of an earlier epoch no longer count.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_epoch: u32,
    /// Whether its partial result was accepted.
    #[serde(skip_serializing_if = "is_false")]
    pub accept_partial: bool,

    /// Fields of a newer release, which an older replica writes back as they are.
    #[serde(flatten)]
    pub newer: Map<String, Value>,
}

impl OperationInput {
    /// An input with a reason alone.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }

    /// An input that says only whether the operation is forced.
    pub fn forced(force: bool) -> Self {
        Self { force, ..Self::default() }
    }

    /// Returns what a new member needs to know: its release, shape and capacity.
    pub fn for_new_member(&self) -> Self {
        Self {
            app_version_id: self.app_version_id,
            shape: self.shape.clone(),
            capacity: self.capacity.clone(),
            ..Self::default()
        }
    }

    /// Returns the successors, of one or of several replaced members.
    pub fn successors(&self) -> impl Iterator<Item = MemberId> {
        self.successor.iter().chain(self.successors.values()).copied()
    }

    /// Returns the input of the operation on one member of a bulk operation. Retry epoch, purpose and inherited effects are
    /// the bulk operation's own.
    pub fn for_item(&self, member: MemberId) -> Self {
        Self {
            successor: self.successors.get(&member).copied(),
            successors: BTreeMap::new(),
            inherited: None,
            spawn_key: None,
            retry_epoch: 0,
            ..self.clone()
        }
    }
}

/// Requested capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestedCapacity {
    /// Of each new member, or of the allocation.
    Each(Capacity),
    /// Of each new member, by component.
    ByComponent(BTreeMap<String, Capacity>),
}

impl RequestedCapacity {
    /// Returns the capacity of each new member of a component.
    pub fn of_component(&self, key: &str) -> Option<Capacity> {
        match self {
            Self::Each(capacity) => Some(*capacity),
            Self::ByComponent(all) => all.get(key).copied(),
        }
    }
}

/// Effects of a superseded operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// The superseded operation.
    pub operation: OperationId,
    /// Its kind.
    pub kind: OperationKind,
    /// Its steps that had begun.
    pub effects: Vec<InheritedEffect>,
}

/// Effect of one step of a superseded operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedEffect {
    /// Name of the step.
    pub step: String,
    /// Its last state.
    pub state: StepState,
    /// Its output.
    pub output: Value,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unused_field_is_absent_and_one_of_a_newer_release_stays() {
        assert_eq!(json!(OperationInput::default()), json!({}));
        assert_eq!(json!(OperationInput::forced(true)), json!({"force": true}));
        let stored = json!({"force": true, "spawn_key": "drain/m1/0", "pace": {"at_once": 2}});
        let mut input: OperationInput = serde_json::from_value(stored).unwrap();
        assert_eq!((input.force, input.spawn_key.as_deref()), (true, Some("drain/m1/0")));
        input.retry_epoch += 1;
        let rewritten =
            json!({"force": true, "spawn_key": "drain/m1/0", "pace": {"at_once": 2}, "retry_epoch": 1});
        assert_eq!(json!(input), rewritten);
    }

    #[test]
    fn a_capacity_is_of_each_member_or_by_component() {
        let each = Capacity { gpus: 1, cpus: 2, memory_mb: 3, disk_mb: 4 };
        let by = RequestedCapacity::ByComponent(BTreeMap::from([("worker".to_owned(), each)]));
        for capacity in [RequestedCapacity::Each(each), by] {
            let input = OperationInput { capacity: Some(capacity), ..OperationInput::default() };
            assert_eq!(serde_json::from_value::<OperationInput>(json!(input)).unwrap(), input);
            assert_eq!(input.capacity.unwrap().of_component("worker"), Some(each));
        }
    }

    #[test]
    fn the_operation_on_an_item_has_its_own_successor_epoch_and_purpose() {
        let env = muster_ids::Env::for_tests(1);
        let (old, new) = (env.id(), env.id());
        let bulk = OperationInput {
            successors: BTreeMap::from([(old, new), (env.id(), env.id())]),
            retry_epoch: 2,
            spawn_key: Some("run_all/x/0".to_owned()),
            ..OperationInput::forced(true)
        };
        let expected = OperationInput { successor: Some(new), ..OperationInput::forced(true) };
        assert_eq!(bulk.for_item(old), expected);
    }
}
