//! Cleans up after an attestation: a node that came back is checked after all, and its slots leave quarantine only once
//! verified.

use super::destroy::DESTROY;
use super::unquarantine::UNQUARANTINE;
use super::verify_destroyed::VERIFY_DESTROYED;
use super::verify_wiped::VERIFY_WIPED;
use super::wipe::WIPE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `allocation.clean`. The platform opens it when the node is back.
pub const CLEAN: Definition = Definition {
    kind: OperationKind::AllocationClean,
    steps: &[DESTROY, VERIFY_DESTROYED, WIPE, VERIFY_WIPED, UNQUARANTINE],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Undo,
    resolvable_by: "operator",
    settle: nothing_to_settle,
};
