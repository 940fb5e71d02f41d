//! The pure heart of the engine under every sequence of verdicts, deadlines and requests.

use jiff::SignedDuration;
use muster_ids::World;
use muster_model::operation::{AskedBy, Item, ItemState};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{KINDS, Open, open, unblock};

/// One thing that happens to an operation.
#[derive(Debug, Clone)]
enum Happens {
    Done,
    Waits(i64),
    Refuses,
    Unknown,
    Cancel,
    /// So many seconds pass.
    Passes(i64),
    /// Somebody takes the n-th choice, if it is parked.
    Unblock(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => Just(Happens::Done),
        3 => (0i64..100).prop_map(Happens::Waits),
        2 => Just(Happens::Refuses),
        2 => Just(Happens::Unknown),
        1 => Just(Happens::Cancel),
        2 => (0i64..2000).prop_map(Happens::Passes),
        2 => (0usize..4).prop_map(Happens::Unblock),
    ]
}

fn verdict(happens: &Happens, now: Timestamp) -> Option<Verdict> {
    let until = |seconds: i64| now + SignedDuration::from_secs(seconds);
    Some(match happens {
        Happens::Done => Verdict::done(),
        Happens::Waits(seconds) => Verdict::Wait { reason: "it waits".to_owned(), until: until(*seconds) },
        Happens::Refuses => Verdict::Refused { reason: "prepare_failed", message: "no".to_owned() },
        Happens::Unknown => Verdict::Unknown { message: "who knows".to_owned(), until: until(1) },
        Happens::Cancel | Happens::Passes(_) | Happens::Unblock(_) => return None,
    })
}

fn opened(definition: &Definition, now: Timestamp) -> Operation {
    let world = World::for_tests(1);
    let mut operation = open(
        definition,
        Open {
            id: world.id(),
            scope: muster_model::Scope::Platform,
            subject_kind: "node",
            subject_id: world.uuid(),
            subject_name: "x".to_owned(),
            touches: vec![],
            shares: Vec::new(),
            asked_by: AskedBy { kind: "user".to_owned(), id: "u".to_owned(), name: "u".to_owned() },
            correlation_id: "c".to_owned(),
            input: json!({}),
            deadline_at: now + SignedDuration::from_secs(600),
            parent_id: None,
            now,
        },
    );
    // A bulk operation has parts, and can be accepted with some of them done.
    operation.items = match definition.kind {
        "node.drain" => vec![Item {
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

/// What must hold of an operation at any moment.
fn holds(operation: &Operation, definition: &Definition) -> Result<(), TestCaseError> {
    let is = |state: StepState| move |step: &muster_model::operation::StepRecord| step.state == state;
    prop_assert_eq!(operation.state == OperationState::Parked, operation.parked.is_some());
    if let Some(parked) = &operation.parked {
        prop_assert!(!parked.reason.is_empty() && !parked.choices.is_empty());
    }
    // Every wait has an end: the engine looks again by the deadline at the latest, or the operation says whom it waits for.
    if !matches!(operation.state, OperationState::Parked) && definition.at_deadline != AtDeadline::Step {
        prop_assert!(operation.due_at <= operation.deadline_at.max(operation.due_at));
    }
    // Forward, the steps that are done are the first ones, in order.
    let done = operation.steps.iter().take_while(|step| step.state == StepState::Done).count();
    if operation.steps.iter().all(|step| !matches!(step.state, StepState::Undoing | StepState::Undone)) {
        prop_assert!(
            operation.steps.iter().skip(done + 1).all(is(StepState::Pending)),
            "{:?}",
            operation.steps
        );
    }
    // Backward, nothing is undone before what came after it.
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
        let mut now = World::for_tests(1).now();
        let mut operation = opened(definition, now);
        operation.state = OperationState::Running;
        let mut past_return = false;
        // After the story everything goes well, and it must come to an end.
        let well = std::iter::repeat_n(Happens::Done, 40).flat_map(|done| [Happens::Unblock(0), done]);
        for happens in story.into_iter().chain(well) {
            match &happens {
                Happens::Passes(seconds) => now += SignedDuration::from_secs(*seconds),
                Happens::Cancel => operation.cancel_requested = true,
                Happens::Unblock(choice) => {
                    let choices = operation.parked.as_ref().map(|parked| parked.choices.clone()).unwrap_or_default();
                    if let Some(choice) = choices.get(*choice) {
                        prop_assert!(unblock(&mut operation, definition, &timing, *choice, now).is_some());
                    }
                }
                _ => {}
            }
            let before = operation.clone();
            let turned = turn(&mut operation, definition, &timing, now);
            match turned {
                Turn::End(state) => {
                    prop_assert!(before.state.can_become(state), "{} {state}", before.state);
                    prop_assert!(state.is_final());
                    let kept = operation.steps.iter().filter(|step| step.state == StepState::Done).count();
                    if state == OperationState::Partial {
                        prop_assert_eq!(&operation.input["accept_partial"], &json!(true));
                    } else if state == OperationState::Succeeded {
                        prop_assert_eq!(kept, operation.steps.len());
                    } else {
                        prop_assert_eq!(kept, 0, "it ends {} with something done", state);
                    }
                    return Ok(());
                }
                Turn::Run(at) | Turn::Undo(at) => {
                    if let Some(verdict) = verdict(&happens, now) {
                        advance(&mut operation, definition, &timing, at, verdict, now);
                    }
                }
                Turn::Changed | Turn::Rest => {}
            }
            prop_assert!(before.state.can_become(operation.state), "{} → {}", before.state, operation.state);
            past_return |= definition.is_past_return(&operation);
            if past_return {
                prop_assert!(operation.state != OperationState::Compensating, "there was no way back");
            }
            holds(&operation, definition)?;
        }
        prop_assert!(false, "it never ended: {:#?}", operation);
    }
}
