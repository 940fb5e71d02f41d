//! From a verdict to the operation's next state: a pure function, and the only place where that is decided.

use jiff::Timestamp;
use muster_model::operation::{Operation, OperationState, Parked, StepState, Unblock};
use serde_json::Value;

use crate::{Abandon, AtDeadline, Definition, Timing, Verdict};

/// When what waits for a person is due again by itself: at no time that anybody will see, and one that both databases keep.
const NEVER: Timestamp = Timestamp::constant(253_370_764_800, 0);

/// What the engine does next with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Run the step at this place.
    Run(usize),
    /// Undo the step at this place.
    Undo(usize),
    /// End it so.
    End(OperationState),
    /// Write the change down and go on at once.
    Changed,
    /// Nothing, until it is due again.
    Rest,
}

/// What to do with an operation now, before any step speaks: deadlines and requests come first.
pub(crate) fn turn(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    now: Timestamp,
) -> Turn {
    match operation.state {
        OperationState::Parked => {
            let choices =
                operation.parked.as_ref().map(|parked| parked.choices.as_slice()).unwrap_or_default();
            // Who asks for its end has decided; nobody else has to. What is being undone already is not turned once more.
            if operation.cancel_requested && definition.cancellable && choices.contains(&Unblock::Compensate)
            {
                cancel(operation, timing, now);
                return Turn::Changed;
            }
            rest_parked(operation, now)
        }
        OperationState::Compensating => {
            if now >= operation.deadline_at {
                let why = operation.waiting.clone().unwrap_or_else(|| "undoing it took too long".to_owned());
                park(operation, definition, timing, now, &format!("it could not be undone in time: {why}"));
                mark_late(operation);
                return Turn::Changed;
            }
            match last_to_undo(operation) {
                Some(at) => Turn::Undo(at),
                None if operation.cancel_requested => Turn::End(OperationState::Cancelled),
                None => Turn::End(OperationState::Failed),
            }
        }
        _ if operation.input["accept_partial"] == Value::Bool(true) => Turn::End(OperationState::Partial),
        // Everything is done: neither the clock nor a request changes that any more.
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
                    AtDeadline::Undo | AtDeadline::Park | AtDeadline::Step => {
                        park(operation, definition, timing, now, &message);
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
    operation.message = Some("it was cancelled on request".to_owned());
    compensate(operation, timing, now);
}

fn rest_parked(operation: &mut Operation, now: Timestamp) -> Turn {
    let Some(parked) = &mut operation.parked else { return Turn::Rest };
    if now >= parked.escalates_at && !parked.escalated {
        parked.escalated = true;
        operation.due_at = NEVER;
        return Turn::Changed;
    }
    operation.due_at = if parked.escalated { NEVER } else { parked.escalates_at };
    Turn::Rest
}

/// The last step that may have had an effect and is not undone.
fn last_to_undo(operation: &Operation) -> Option<usize> {
    operation.steps.iter().rposition(|step| {
        matches!(step.state, StepState::Done | StepState::Running | StepState::Failed | StepState::Undoing)
    })
}

/// Applies what the step at `at` said.
pub(crate) fn advance(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    at: usize,
    verdict: Verdict,
    now: Timestamp,
) {
    if operation.state == OperationState::Compensating {
        return advance_undo(operation, definition, timing, at, verdict, now);
    }
    let verifies = |place: usize| definition.steps.get(place).is_some_and(|step| step.verifies);
    let state = if verifies(at) { OperationState::Verifying } else { OperationState::Running };
    operation.state = state;
    operation.waiting = None;
    let step = &mut operation.steps[at];
    step.started_at.get_or_insert(now);
    step.attempts += 1;
    match verdict {
        Verdict::Done { output, message, witness } => {
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
        Verdict::Wait { reason, until } => {
            step.state = StepState::Running;
            step.message = Some(reason.clone());
            operation.waiting = Some(reason);
            operation.due_at = until.max(now).min(operation.deadline_at.max(now));
        }
        Verdict::Unknown { message, until } => {
            step.state = StepState::Running;
            step.message = Some(message.clone());
            operation.waiting = Some(message);
            operation.due_at = until;
        }
        Verdict::Refused { reason, message } => {
            step.state = StepState::Failed;
            step.ended_at = Some(now);
            step.message = Some(message.clone());
            operation.reason = Some(reason.to_owned());
            operation.message = Some(message.clone());
            let turns = !definition.is_past_return(operation);
            match definition.on_failure.undoes(reason) && turns {
                true => compensate(operation, timing, now),
                false => park(operation, definition, timing, now, &message),
            }
        }
    }
}

fn advance_undo(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    at: usize,
    verdict: Verdict,
    now: Timestamp,
) {
    operation.waiting = None;
    let step = &mut operation.steps[at];
    step.state = StepState::Undoing;
    match verdict {
        Verdict::Done { message, .. } => {
            step.state = StepState::Undone;
            step.ended_at = Some(now);
            step.message = message.or_else(|| Some("undone".to_owned()));
            operation.due_at = now;
        }
        Verdict::Wait { reason, until } | Verdict::Unknown { message: reason, until } => {
            operation.waiting = Some(reason);
            operation.due_at = until.max(now).min(operation.deadline_at.max(now));
        }
        Verdict::Refused { message, .. } => {
            park(operation, definition, timing, now, &format!("it could not be undone: {message}"));
        }
    }
}

/// Turns an operation around. Undoing has a deadline of its own.
pub(crate) fn compensate(operation: &mut Operation, timing: &Timing, now: Timestamp) {
    operation.state = OperationState::Compensating;
    operation.parked = None;
    operation.waiting = None;
    operation.deadline_at = now + timing.undo;
    operation.due_at = now;
}

/// Parks an operation: it keeps what it touches, and says who can unblock it.
pub(crate) fn park(
    operation: &mut Operation,
    definition: &Definition,
    timing: &Timing,
    now: Timestamp,
    reason: &str,
) {
    let undoing = operation.state == OperationState::Compensating;
    let past_return = definition.is_past_return(operation);
    let mut choices = vec![Unblock::Retry];
    if !undoing && definition.on_failure.can_undo() && !past_return {
        choices.push(Unblock::Compensate);
    }
    if !operation.items.is_empty() {
        choices.push(Unblock::AcceptPartial);
    }
    let abandons = match definition.abandon {
        Abandon::Attest => true,
        Abandon::Undo => !past_return,
        Abandon::Never => false,
    };
    if abandons {
        choices.push(Unblock::Abandon);
    }
    let escalates_at = now + timing.escalate;
    operation.state = OperationState::Parked;
    operation.waiting = None;
    operation.message = Some(reason.to_owned());
    operation.parked = Some(Parked {
        reason: reason.to_owned(),
        unblock_by: if undoing { "operator" } else { definition.unblock_by }.to_owned(),
        choices,
        since: now,
        escalates_at,
        escalated: false,
        by_deadline: false,
    });
    operation.due_at = escalates_at;
}

fn mark_late(operation: &mut Operation) {
    if let Some(parked) = &mut operation.parked {
        parked.by_deadline = true;
    }
}

/// Takes a parked operation up because what it waited for may be there now. Where only its time was over it goes on where it
/// is, and what it asked for still counts; where something was refused, that is tried again.
pub(crate) fn go_on(operation: &mut Operation, definition: &Definition, timing: &Timing, now: Timestamp) {
    let late = operation.parked.as_ref().is_some_and(|parked| parked.by_deadline);
    let round = operation.input["round"].clone();
    resume(operation, definition, timing, now);
    if late {
        operation.input["round"] = round;
    }
}

/// The step that an operation is at, in the direction that it has.
pub(crate) fn at_step(operation: &Operation) -> Option<&str> {
    let undoing = operation.steps.iter().rfind(|step| step.state == StepState::Undoing);
    let step = undoing.or_else(|| operation.current().map(|at| &operation.steps[at]));
    step.map(|step| step.name.as_str())
}

/// Takes a parked operation up again, in the direction it had. Where evidence was not what it should be, what it is evidence
/// for is done once more.
pub(crate) fn resume(operation: &mut Operation, definition: &Definition, timing: &Timing, now: Timestamp) {
    let undoing =
        operation.steps.iter().any(|step| matches!(step.state, StepState::Undoing | StepState::Undone));
    operation.parked = None;
    operation.due_at = now;
    // Tasks that ended are not looked at again: what is tried again is asked for again.
    operation.input["round"] = Value::from(operation.input["round"].as_i64().unwrap_or(0) + 1);
    if undoing {
        operation.state = OperationState::Compensating;
        operation.deadline_at = now + timing.undo;
    } else {
        operation.state = OperationState::Running;
        // It is tried again: what it failed for is over until it fails once more.
        (operation.reason, operation.message) = (None, None);
        operation.deadline_at = operation.deadline_at.max(now + timing.release);
        // A step that was refused is tried as if for the first time.
        if let Some(at) = operation.steps.iter().position(|step| step.state == StepState::Failed) {
            let verifies = |at: usize| definition.steps.get(at).is_some_and(|step| step.verifies);
            // Over the step after which there is no way back nobody goes back either.
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
                // What may take so long has that time once more.
                step.started_at = None;
            }
            operation.steps[at].state = if from == at { StepState::Running } else { StepState::Pending };
        }
    }
}

#[cfg(test)]
mod tests;
