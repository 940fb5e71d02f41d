//! The pure core of the engine under every sequence of outcomes, deadlines and requests.

use jiff::SignedDuration;
use muster_ids::Env;
use muster_model::audit::Actor;
use muster_model::operation::{Item, ItemState, OperationKind};
use muster_model::operation_input::OperationInput;
use proptest::prelude::*;

use super::*;
use crate::{KINDS, OperationRequest, accept, resolve};

/// An event in the life of an operation.
#[derive(Debug, Clone)]
enum Happens {
    Done,
    Waits(i64),
    Refuses,
    /// The rest is on an unreachable node.
    Quarantines,
    Unknown,
    Cancel,
    /// This many seconds pass.
    Passes(i64),
    /// A user takes the n-th choice, if it is blocked.
    ResolveAction(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => Just(Happens::Done),
        3 => (0i64..100).prop_map(Happens::Waits),
        2 => Just(Happens::Refuses),
        1 => Just(Happens::Quarantines),
        2 => Just(Happens::Unknown),
        1 => Just(Happens::Cancel),
        2 => (0i64..2000).prop_map(Happens::Passes),
        2 => (0usize..4).prop_map(Happens::ResolveAction),
    ]
}

fn outcome(happens: &Happens, now: Timestamp) -> Option<StepOutcome> {
    let until = |seconds: i64| now + SignedDuration::from_secs(seconds);
    Some(match happens {
        Happens::Done => StepOutcome::done(),
        Happens::Waits(seconds) => {
            StepOutcome::Wait { reason: "it waits".to_owned(), until: until(*seconds) }
        }
        Happens::Refuses => StepOutcome::Refused { reason: "prepare_failed", message: "no".to_owned() },
        Happens::Quarantines => {
            StepOutcome::Refused { reason: QUARANTINED, message: "its node is away".to_owned() }
        }
        Happens::Unknown => StepOutcome::Unknown { message: "who knows".to_owned(), until: until(1) },
        Happens::Cancel | Happens::Passes(_) | Happens::ResolveAction(_) => return None,
    })
}

fn opened(definition: &Definition, now: Timestamp) -> Operation {
    let env = Env::for_tests(1);
    let mut operation = accept(
        definition,
        OperationRequest {
            id: env.id(),
            scope: muster_model::Scope::Platform,
            subject_kind: "node",
            subject_id: env.uuid(),
            subject_name: "x".to_owned(),
            exclusive_locks: vec![],
            shared_locks: Vec::new(),
            timeline: muster_model::event::Timeline::default(),
            asked_by: Actor { kind: "user".to_owned(), id: "u".to_owned(), name: "u".to_owned() },
            correlation_id: "c".to_owned(),
            input: OperationInput::default(),
            deadline_at: now + SignedDuration::from_secs(600),
            parent_id: None,
            now,
        },
    );
    // A bulk operation has items and can be accepted as partial.
    operation.items = match definition.kind {
        OperationKind::NodeDrain => vec![Item {
            id: "a".to_owned(),
            name: "a".to_owned(),
            state: ItemState::Pending,
            operation_id: None,
            message: None,
        }],
        _ => Vec::new(),
    };
    operation
}

/// Invariants of an operation at any time. `waits` is the time until which its step has just asked to wait.
fn holds(
    operation: &Operation,
    definition: &Definition,
    waits: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), TestCaseError> {
    let is = |state: StepState| move |step: &muster_model::operation::StepRecord| step.state == state;
    prop_assert_eq!(operation.state == OperationState::Blocked, operation.blocked.is_some());
    if let Some(blocked) = &operation.blocked {
        prop_assert!(!blocked.reason.is_empty() && !blocked.actions.is_empty());
    }
    // Every wait ends: the engine runs again by the deadline at the latest, or the operation is blocked. Only a step that
    // decides itself what happens at the deadline waits beyond it.
    let decides =
        definition.at_deadline == AtDeadline::Step && operation.state != OperationState::Compensating;
    if operation.state != OperationState::Blocked && !(decides && now >= operation.deadline_at) {
        prop_assert!(operation.due_at <= operation.deadline_at.max(now), "it sleeps through its deadline");
    }
    // A step that waits is not run again at once, over and over: not even after the deadline, if it decides itself.
    if let Some(until) = waits.filter(|until| *until > now && operation.state != OperationState::Blocked) {
        let soonest = if now < operation.deadline_at { until.min(operation.deadline_at) } else { until };
        prop_assert_eq!(operation.due_at, soonest, "it runs in circles");
    }
    // Forward, the done steps are the first ones, in order.
    let done = operation.steps.iter().take_while(|step| step.state == StepState::Done).count();
    if operation.steps.iter().all(|step| !matches!(step.state, StepState::Undoing | StepState::Undone)) {
        prop_assert!(
            operation.steps.iter().skip(done + 1).all(is(StepState::Pending)),
            "{:?}",
            operation.steps
        );
    }
    // Backward, no step is undone before its successors.
    if let Some(first) = operation.steps.iter().position(is(StepState::Undone)) {
        let later = &operation.steps[first..];
        prop_assert!(
            later.iter().all(|step| matches!(step.state, StepState::Undone | StepState::Pending)),
            "{:?}",
            operation.steps
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_happens_every_state_is_legal_and_everything_ends(
        which in 0..KINDS.len(),
        story in proptest::collection::vec(happens(), 0..60),
    ) {
        let definition = &KINDS[which];
        let timing = Timing::default();
        let mut now = Env::for_tests(1).now();
        let mut operation = opened(definition, now);
        operation.state = OperationState::Running;
        let mut past_return = false;
        // Kept by the test itself: what the operation records of these is what `turn` decides by.
        let (mut accepted, mut quarantined, mut cancelled) = (false, false, false);
        // After the random events every step succeeds, and the operation must end.
        let well = std::iter::repeat_n(Happens::Done, 40).flat_map(|done| [Happens::ResolveAction(0), done]);
        for happens in story.into_iter().chain(well) {
            match &happens {
                Happens::Passes(seconds) => now += SignedDuration::from_secs(*seconds),
                Happens::Cancel => {
                    operation.cancel_requested = true;
                    cancelled = true;
                }
                Happens::ResolveAction(action) => {
                    let actions = operation.blocked.as_ref().map(|blocked| blocked.actions.clone()).unwrap_or_default();
                    if let Some(action) = actions.get(*action) {
                        prop_assert!(resolve(&mut operation, definition, &timing, *action, now).is_some());
                        accepted |= *action == ResolveAction::AcceptPartial;
                        // To abandon what can be undone is to cancel it.
                        cancelled |= *action == ResolveAction::Abandon;
                    }
                }
                _ => {}
            }
            let before = operation.clone();
            let mut waits = None;
            let turned = turn(&mut operation, definition, &timing, now);
            match turned {
                Turn::End(state) => {
                    prop_assert!(before.state.can_become(state), "{} {state}", before.state);
                    prop_assert!(state.is_final());
                    let kept = operation.steps.iter().filter(|step| step.state == StepState::Done).count();
                    match state {
                        OperationState::Partial => {
                            prop_assert!(accepted || quarantined, "it ends in part, which no user and no step chose");
                        }
                        OperationState::Succeeded => prop_assert_eq!(kept, operation.steps.len()),
                        _ => prop_assert_eq!(kept, 0, "it ends {} with something done", state),
                    }
                    prop_assert!(!accepted || state == OperationState::Partial, "accepted in part, it ends {}", state);
                    prop_assert!(cancelled || state != OperationState::Cancelled, "no user cancelled it");
                    return Ok(());
                }
                Turn::Run(at) | Turn::Undo(at) => {
                    if let Some(outcome) = outcome(&happens, now) {
                        waits = match &outcome {
                            StepOutcome::Wait { until, .. } | StepOutcome::Unknown { until, .. } => Some(*until),
                            _ => None,
                        };
                        let forward = matches!(turned, Turn::Run(_));
                        quarantined |= forward && matches!(happens, Happens::Quarantines);
                        advance(&mut operation, definition, &timing, at, outcome, now);
                    }
                }
                Turn::Changed | Turn::Rest => {}
            }
            prop_assert!(before.state.can_become(operation.state), "{} → {}", before.state, operation.state);
            past_return |= definition.is_past_return(&operation);
            if past_return {
                prop_assert!(operation.state != OperationState::Compensating, "there was no way back");
            }
            holds(&operation, definition, waits, now)?;
        }
        prop_assert!(false, "it never ended: {:#?}", operation);
    }
}
