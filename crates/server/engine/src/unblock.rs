//! What can be decided about a parked operation.

use jiff::Timestamp;
use muster_model::operation::{Operation, OperationState, Unblock};

use serde_json::json;

use crate::advance::{compensate, resume};
use crate::definition::Abandon;
use crate::{Definition, Timing};

/// What follows from a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unblocked {
    /// The engine goes on with it.
    GoesOn,
    /// The same, and the operator's word stands in for the evidence that could not be had.
    Attested,
}

/// Takes a parked operation up because what it waited for may be there now: nobody had to decide anything. Says whether it was
/// parked; the caller writes it down, in a transaction that seized the operation.
pub fn go_on(operation: &mut Operation, definition: &Definition, timing: &Timing, now: Timestamp) -> bool {
    if operation.state != OperationState::Parked {
        return false;
    }
    crate::advance::go_on(operation, definition, timing, now);
    true
}

/// Applies a decision to a parked operation; `None` when it is not one of the choices. The caller writes it down, in a
/// transaction that seized the operation.
pub fn unblock(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    choice: Unblock,
    now: Timestamp,
) -> Option<Unblocked> {
    let parked = operation.parked.as_ref()?;
    if !parked.choices.contains(&choice) {
        return None;
    }
    Some(match choice {
        Unblock::Retry => {
            resume(operation, definition, timing, now);
            Unblocked::GoesOn
        }
        Unblock::Compensate => {
            compensate(operation, timing, now);
            Unblocked::GoesOn
        }
        Unblock::AcceptPartial => {
            operation.input["accept_partial"] = json!(true);
            operation.state = OperationState::Running;
            operation.parked = None;
            operation.due_at = now;
            Unblocked::GoesOn
        }
        Unblock::Abandon => match definition.abandon {
            Abandon::Attest => {
                resume(operation, definition, timing, now);
                Unblocked::Attested
            }
            Abandon::Undo | Abandon::Never => {
                operation.cancel_requested = true;
                compensate(operation, timing, now);
                Unblocked::GoesOn
            }
        },
    })
}
