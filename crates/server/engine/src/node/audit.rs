//! Audits a node against its database rows, in both directions: compare · remove orphans, if requested.

use super::clean_orphans::CLEAN_ORPHANS;
use super::compare::COMPARE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `node.audit`. It succeeds when the comparison is complete; its messages and evidence hold the findings.
pub const AUDIT: Definition = Definition {
    kind: OperationKind::NodeAudit,
    steps: &[COMPARE, CLEAN_ORPHANS],
    on_failure: OnFailure::Undo,
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Undo,
    resolvable_by: "operator",
    settle: nothing_to_settle,
};
