//! Maps a step outcome to the operation's next state: a pure function. `resolve.rs` and `supersede.rs` apply decisions from
//! outside.

use jiff::Timestamp;
use muster_model::operation::{Blocked, Operation, OperationState, ResolveAction, StepState};
use serde_json::Value;

use crate::step_outcome::QUARANTINED;
use crate::{Abandon, AtDeadline, Definition, StepOutcome, Timing};

/// Due time of an operation that waits for an operator: never reached, and representable in both databases.
const NEVER: Timestamp = Timestamp::constant(253_370_764_800, 0);

/// Next action of the engine on an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Run the step at this index.
    Run(usize),
    /// Undo the step at this index.
    Undo(usize),
    /// End it in this state.
    End(OperationState),
    /// Commit the change and continue immediately.
    Changed,
    /// Nothing until it is due again.
    Rest,
}

/// Decides the next action before any step runs: deadlines and requests come first.
pub(crate) fn turn(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    now: Timestamp,
) -> Turn {
    match operation.state {
        OperationState::Blocked => {
            let actions =
                operation.blocked.as_ref().map(|blocked| blocked.actions.as_slice()).unwrap_or_default();
            // A cancellation is the operator's decision. An operation that is already compensating offers no such choice.
            if operation.cancel_requested
                && definition.cancellable
                && actions.contains(&ResolveAction::Compensate)
            {
                cancel(operation, timing, now);
                return Turn::Changed;
            }
            rest_blocked(operation, now)
        }
        OperationState::Compensating => {
            if now >= operation.deadline_at {
                let why =
                    operation.waiting.clone().unwrap_or_else(|| "the rollback took too long".to_owned());
                block(
                    operation,
                    definition,
                    timing,
                    now,
                    &format!("it could not be rolled back in time: {why}"),
                );
                mark_late(operation);
                return Turn::Changed;
            }
            match last_to_undo(operation) {
                Some(at) => Turn::Undo(at),
                None if operation.cancel_requested => Turn::End(OperationState::Cancelled),
                None => Turn::End(OperationState::Failed),
            }
        }
        _ if operation.input.accept_partial => Turn::End(OperationState::Partial),
        _ if operation.reason.as_deref() == Some(QUARANTINED) => Turn::End(OperationState::Partial),
        // Every step is done: neither a deadline nor a request changes that.
        _ if operation.current().is_none() => Turn::End(OperationState::Succeeded),
        _ => {
            let turns = !definition.is_past_return(operation);
            if operation.cancel_requested && definition.cancellable && turns {
                cancel(operation, timing, now);
                return Turn::Changed;
            }
            if now >= operation.deadline_at && definition.at_deadline != AtDeadline::Step {
                let why = operation.waiting.clone().unwrap_or_else(|| "a step took too long".to_owned());
                let message = format!("its deadline has passed: {why}");
                match definition.at_deadline {
                    AtDeadline::Undo if turns => {
                        operation.reason.get_or_insert_with(|| "deadline_passed".to_owned());
                        operation.message = Some(message);
                        compensate(operation, timing, now);
                    }
                    AtDeadline::Undo | AtDeadline::Block | AtDeadline::Step => {
                        block(operation, definition, timing, now, &message);
                        mark_late(operation);
                    }
                }
                return Turn::Changed;
            }
            operation.current().map_or(Turn::End(OperationState::Succeeded), Turn::Run)
        }
    }
}

fn cancel(operation: &mut Operation, timing: &Timing, now: Timestamp) {
    operation.reason = Some("cancelled".to_owned());
    operation.message = Some("cancellation was requested".to_owned());
    compensate(operation, timing, now);
}

fn rest_blocked(operation: &mut Operation, now: Timestamp) -> Turn {
    let Some(blocked) = &mut operation.blocked else { return Turn::Rest };
    if now >= blocked.escalates_at && !blocked.escalated {
        blocked.escalated = true;
        operation.due_at = NEVER;
        return Turn::Changed;
    }
    operation.due_at = if blocked.escalated { NEVER } else { blocked.escalates_at };
    Turn::Rest
}

/// Returns the last step that may have had an effect and is not undone.
fn last_to_undo(operation: &Operation) -> Option<usize> {
    operation.steps.iter().rposition(|step| {
        matches!(step.state, StepState::Done | StepState::Running | StepState::Failed | StepState::Undoing)
    })
}

/// Applies the outcome of the step at `at`.
pub(crate) fn advance(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    at: usize,
    outcome: StepOutcome,
    now: Timestamp,
) {
    if operation.state == OperationState::Compensating {
        return advance_undo(operation, definition, timing, at, outcome, now);
    }
    let verifies = |place: usize| definition.steps.get(place).is_some_and(|step| step.verifies);
    let state = if verifies(at) { OperationState::Verifying } else { OperationState::Running };
    operation.state = state;
    operation.waiting = None;
    let step = &mut operation.steps[at];
    step.started_at.get_or_insert(now);
    step.attempts += 1;
    match outcome {
        StepOutcome::Done { output, message, witness } => {
            step.state = StepState::Done;
            step.ended_at = Some(now);
            step.message = message;
            step.output = output;
            step.witness_id = witness;
            operation.due_at = now;
            if verifies(at + 1) {
                operation.state = OperationState::Verifying;
            }
        }
        StepOutcome::Wait { reason, until } => {
            step.state = StepState::Running;
            step.message = Some(reason.clone());
            operation.waiting = Some(reason);
            operation.due_at = due(operation, definition, until, now);
        }
        StepOutcome::Unknown { message, until } => {
            step.state = StepState::Running;
            step.message = Some(message.clone());
            operation.waiting = Some(message);
            operation.due_at = due(operation, definition, until, now);
        }
        StepOutcome::Refused { reason, message } => {
            step.state = StepState::Failed;
            step.ended_at = Some(now);
            step.message = Some(message.clone());
            operation.reason = Some(reason.to_owned());
            operation.message = Some(message.clone());
            let turns = !definition.is_past_return(operation);
            match definition.on_failure.undoes(reason) && turns {
                // Its end follows at once.
                _ if reason == QUARANTINED => operation.due_at = now,
                true => compensate(operation, timing, now),
                false => block(operation, definition, timing, now, &message),
            }
        }
    }
}

/// Returns when a waiting operation is due: by its deadline at the latest, which ends the wait. A step that decides itself
/// what happens then goes on waiting after it.
fn due(operation: &Operation, definition: &Definition, until: Timestamp, now: Timestamp) -> Timestamp {
    match definition.at_deadline {
        AtDeadline::Step if now >= operation.deadline_at => until.max(now),
        _ => until.max(now).min(operation.deadline_at.max(now)),
    }
}

fn advance_undo(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    at: usize,
    outcome: StepOutcome,
    now: Timestamp,
) {
    operation.waiting = None;
    let step = &mut operation.steps[at];
    step.state = StepState::Undoing;
    match outcome {
        StepOutcome::Done { message, .. } => {
            step.state = StepState::Undone;
            step.ended_at = Some(now);
            step.message = message.or_else(|| Some("undone".to_owned()));
            operation.due_at = now;
        }
        StepOutcome::Wait { reason, until } | StepOutcome::Unknown { message: reason, until } => {
            operation.waiting = Some(reason);
            operation.due_at = until.max(now).min(operation.deadline_at.max(now));
        }
        StepOutcome::Refused { message, .. } => {
            block(operation, definition, timing, now, &format!("it could not be rolled back: {message}"));
        }
    }
}

/// Begins compensation, which has a deadline of its own.
pub(crate) fn compensate(operation: &mut Operation, timing: &Timing, now: Timestamp) {
    operation.state = OperationState::Compensating;
    operation.blocked = None;
    operation.waiting = None;
    operation.deadline_at = now + timing.undo;
    operation.due_at = now;
}

/// Blocks an operation: it keeps its locks and names the roles that can unblock it.
pub(crate) fn block(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    now: Timestamp,
    reason: &str,
) {
    let undoing = operation.state == OperationState::Compensating;
    let past_return = definition.is_past_return(operation);
    let mut actions = vec![ResolveAction::Retry];
    if !undoing && definition.on_failure.can_undo() && !past_return {
        actions.push(ResolveAction::Compensate);
    }
    // The platform's own remainder of a quarantine cannot be left as it is: no operation would finish it.
    let quarantined = is_of_quarantine(operation);
    if !operation.items.is_empty() && !quarantined {
        actions.push(ResolveAction::AcceptPartial);
    }
    let abandons = match definition.abandon {
        Abandon::Attest => true,
        Abandon::Undo => !past_return,
        Abandon::Never => false,
    };
    if abandons {
        actions.push(ResolveAction::Abandon);
    }
    let escalates_at = now + timing.escalate;
    operation.state = OperationState::Blocked;
    operation.waiting = None;
    operation.message = Some(reason.to_owned());
    operation.blocked = Some(Blocked {
        reason: reason.to_owned(),
        resolvable_by: if undoing || quarantined { "operator" } else { definition.resolvable_by }.to_owned(),
        actions,
        since: now,
        escalates_at,
        escalated: false,
        by_deadline: false,
    });
    operation.due_at = escalates_at;
}

/// Reports whether the platform opened this operation to finish what a forced one left in quarantine.
pub(crate) fn is_of_quarantine(operation: &Operation) -> bool {
    operation.input.quarantined.is_some()
}

fn mark_late(operation: &mut Operation) {
    if let Some(blocked) = &mut operation.blocked {
        blocked.by_deadline = true;
    }
}

/// Resumes a blocked operation because its obstacle may be gone. If only its deadline had passed, it continues where it is
/// and its outstanding requests still count; a refused step is retried.
pub(crate) fn go_on(operation: &mut Operation, definition: &Definition, timing: &Timing, now: Timestamp) {
    let late = operation.blocked.as_ref().is_some_and(|blocked| blocked.by_deadline);
    let retry_epoch = operation.input.retry_epoch;
    resume(operation, definition, timing, now);
    if late {
        operation.input.retry_epoch = retry_epoch;
    }
}

/// Returns the step that an operation is at, in its current direction.
pub(crate) fn at_step(operation: &Operation) -> Option<&str> {
    let undoing = operation.steps.iter().rfind(|step| step.state == StepState::Undoing);
    let step = undoing.or_else(|| operation.current().map(|at| &operation.steps[at]));
    step.map(|step| step.name.as_str())
}

/// Resumes a blocked operation in the direction it had. If a verification failed, the step that it verifies runs again.
pub(crate) fn resume(operation: &mut Operation, definition: &Definition, timing: &Timing, now: Timestamp) {
    let undoing =
        operation.steps.iter().any(|step| matches!(step.state, StepState::Undoing | StepState::Undone));
    operation.blocked = None;
    operation.due_at = now;
    // A new retry epoch: finished tasks no longer count, and a retried step queues new ones.
    operation.input.retry_epoch += 1;
    if undoing {
        operation.state = OperationState::Compensating;
        operation.deadline_at = now + timing.undo;
    } else {
        operation.state = OperationState::Running;
        // Clear the failure; a new one replaces it if the retry fails.
        (operation.reason, operation.message) = (None, None);
        operation.deadline_at = operation.deadline_at.max(now + timing.release);
        // Reset the refused step.
        if let Some(at) = operation.steps.iter().position(|step| step.state == StepState::Failed) {
            let verifies = |at: usize| definition.steps.get(at).is_some_and(|step| step.verifies);
            // Never repeat the step of no return.
            let again = |at: usize| {
                definition
                    .steps
                    .get(at)
                    .is_some_and(|step| !step.verifies && definition.no_return != Some(step.name))
            };
            let from = if verifies(at) && at > 0 && again(at - 1) { at - 1 } else { at };
            for step in &mut operation.steps[from..=at] {
                step.state = StepState::Running;
                step.output = Value::Null;
                step.ended_at = None;
                // Its timeout starts again.
                step.started_at = None;
            }
            operation.steps[at].state = if from == at { StepState::Running } else { StepState::Pending };
        }
    }
}

#[cfg(test)]
mod tests;
