//! Decisions about a blocked operation.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::OperationId;
use muster_model::operation::{Operation, OperationState, ResolveAction};

use crate::advance::{compensate, resume};
use crate::definition::Abandon;
use crate::{Definition, Timing, definition};

/// Consequence of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unblocked {
    /// The engine continues with it.
    GoesOn,
    /// The engine continues, and the operator's attestation replaces the missing evidence.
    Attested,
}

/// Resumes a blocked operation because its obstacle may be gone, without a decision. Reports whether it was blocked; the
/// caller stores it, in a transaction that seized the operation.
pub fn go_on(operation: &mut Operation, definition: &Definition, timing: &Timing, now: Timestamp) -> bool {
    if operation.state != OperationState::Blocked {
        return false;
    }
    crate::advance::go_on(operation, definition, timing, now);
    true
}

/// Likewise, and stores it. Returns the resumed operation, or `None` if it is not blocked.
pub async fn resume_blocked(
    tx: &mut Tx,
    id: OperationId,
    timing: &Timing,
    now: Timestamp,
) -> Result<Option<Operation>> {
    let Some(mut operation) = tx.operation_seize(id).await? else { return Ok(None) };
    let Some(kind) = definition(operation.kind) else { return Ok(None) };
    if !go_on(&mut operation, kind, timing, now) {
        return Ok(None);
    }
    tx.operation_advance(&operation, now, None).await?;
    Ok(Some(operation))
}

/// Applies a decision to a blocked operation; `None` when it is not one of the choices. The caller stores it, in a
/// transaction that seized the operation.
pub fn resolve(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    action: ResolveAction,
    now: Timestamp,
) -> Option<Unblocked> {
    let blocked = operation.blocked.as_ref()?;
    if !blocked.actions.contains(&action) {
        return None;
    }
    Some(match action {
        ResolveAction::Retry => {
            resume(operation, definition, timing, now);
            Unblocked::GoesOn
        }
        ResolveAction::Compensate => {
            compensate(operation, timing, now);
            Unblocked::GoesOn
        }
        ResolveAction::AcceptPartial => {
            operation.input.accept_partial = true;
            operation.state = OperationState::Running;
            operation.blocked = None;
            operation.due_at = now;
            Unblocked::GoesOn
        }
        ResolveAction::Abandon => match definition.abandon {
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
