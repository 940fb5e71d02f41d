//! All kinds of operations.

use crate::definition::Definition;
use crate::{allocation, cell, instance, member, members, node};
use muster_model::operation::OperationKind;

/// All definitions. The journals of older releases name kinds and steps, so neither is ever renamed.
pub const KINDS: &[Definition] = &[
    allocation::CREATE,
    allocation::RELEASE,
    allocation::RESTART,
    allocation::RESIZE,
    allocation::CLEAN,
    cell::CREATE,
    cell::RESTART,
    cell::DESTROY,
    node::DRAIN,
    node::RETIRE,
    node::AUDIT,
    member::ADD,
    member::DRAIN,
    member::RESUME,
    member::REMOVE,
    member::REPLACE,
    member::RECOVER,
    member::UPGRADE,
    members::ADD,
    members::DRAIN,
    members::RESUME,
    members::REMOVE,
    members::REPLACE,
    members::RECOVER,
    instance::CREATE,
    instance::SCALE,
    instance::UPGRADE,
    instance::ROLLBACK,
    instance::DECOMMISSION,
];

/// Returns the definition of a kind.
pub fn definition(kind: OperationKind) -> Option<&'static Definition> {
    KINDS.iter().find(|definition| definition.kind == kind)
}
