//! Upgrades an instance: record the release · recreate member by member · verify that all of it runs.

use super::prepare::PREPARE;
use super::rolling_update::ROLLING_UPDATE;
use super::verify_running::VERIFY_RUNNING;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `instance.upgrade`. A failure blocks it; a rollback supersedes it.
pub const UPGRADE: Definition = Definition {
    kind: OperationKind::InstanceUpgrade,
    steps: &[PREPARE, ROLLING_UPDATE, VERIFY_RUNNING],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: nothing_to_settle,
};
