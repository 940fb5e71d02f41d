//! Retires a node: verify that no platform resource is left on it · confirm that it is empty. From then on its certificate
//! is rejected.

use super::confirm_empty::CONFIRM_EMPTY;
use super::survey::SURVEY;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `node.retire`.
pub const RETIRE: Definition = Definition {
    kind: OperationKind::NodeRetire,
    steps: &[SURVEY, CONFIRM_EMPTY],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: true,
    no_return: Some("confirm_empty"),
    abandon: Abandon::Undo,
    resolvable_by: "operator",
    settle: nothing_to_settle,
};
