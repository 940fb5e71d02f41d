//! Verifies that the cell exists, matches its spec, and that its services are ready.

use jiff::SignedDuration;
use muster_db::{Result, StoreError};
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellFailure, CellState};
use muster_model::event::EventType;
use muster_model::witness::Transition;
use muster_wire::cell::{CellFindings, CellSpec, Restart, ServiceState, Start};
use serde_json::json;

use super::subject::{allocation, evidence, inspect_act, order, path, refused, seen, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Asked, ask, ask_anew};
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_RUNNING: Step = Step {
    name: "verify_running",
    does: "inspect the cell until all services are ready",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

/// Pause between two inspections. The agent itself waits a little for services that are not ready.
const PAUSE: SignedDuration = SignedDuration::from_millis(200);

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let cell = subject(cx).await?;
    let allocation = allocation(cx, &cell).await?;
    if allocation.state != AllocationState::Active || cell.state.is_final() {
        let why = format!("its allocation {} is {}", allocation.name, allocation.state);
        return Ok(refused(CellFailure::AllocationEnded, why).into());
    }
    let wanted = order(&cell, &allocation, inspect_act(&cell, &allocation), "inspect");
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(task, found) => (task, seen(&found)),
        Asked::Failed(why) => return Ok(refused(CellFailure::VerifyFailed, why).into()),
    };
    let spec: CellSpec =
        serde_json::from_value(cell.spec.clone()).map_err(|_| StoreError::Corrupt("a cell specification"))?;
    match judge(&cell, &spec, &found) {
        Judged::Ready => {}
        Judged::Not(reason, why) => return Ok(refused(reason, why).into()),
        Judged::Later(why) => {
            let until = task.finished_at.unwrap_or(cx.now) + PAUSE;
            if cx.now < until {
                return Ok(StepOutcome::Wait { reason: why, until }.into());
            }
            return ask_anew(cx, &wanted, &task);
        }
    }
    let checked = json!({"present": true, "incarnation": cell.incarnation, "address": found.address,
                         "services_ready": found.services.iter().map(|service| &service.name).collect::<Vec<_>>()});
    let witness = evidence(cx, &cell, Transition::Active, &task, checked);
    let (now, operation_id) = (cx.now, cx.operation.id);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            let after = Cell {
                state: CellState::Running,
                running_witness_id: Some(witness.id),
                operation_id: Some(operation_id),
                reason: None,
                message: None,
                ..cell.clone()
            };
            tx.cell_move(&cell, &after, now).await?;
            let data = json!({"incarnation": cell.incarnation, "witness_id": witness.id});
            effects.events.push((EventType::CellRunning, path(&after), data));
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}

/// Assessment of an agent's findings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// Everything is as expected.
    Ready,
    /// Not yet, and why.
    Later(String),
    /// Failed for good, and why.
    Not(CellFailure, String),
}

/// Compares the agent's findings with the spec.
pub(crate) fn judge(cell: &Cell, spec: &CellSpec, found: &CellFindings) -> Judged {
    if !found.present {
        return Judged::Not(
            CellFailure::VerifyFailed,
            "the node reported it as created, but it does not exist".to_owned(),
        );
    }
    if found.incarnation != cell.incarnation {
        let why = format!("it has incarnation {}, not {}", found.incarnation, cell.incarnation);
        return Judged::Not(CellFailure::VerifyFailed, why);
    }
    // Services started on request do not count towards the cell's readiness.
    for service in spec.services.iter().filter(|service| service.start == Start::WithCell) {
        let name = &service.name;
        let Some(seen) = found.services.iter().find(|seen| seen.name == *name) else {
            return Judged::Later(format!("the service {name} has not been started"));
        };
        let said = seen.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        match (seen.state, seen.ready, seen.exit) {
            // A one-shot service that succeeded counts as ready.
            (ServiceState::Ended, _, Some(0)) if service.restart != Restart::Always => {}
            (ServiceState::Ended, _, exit) => {
                let exit = exit.map_or_else(|| "an unknown status".to_owned(), |exit| exit.to_string());
                return Judged::Not(
                    CellFailure::ServiceEnded,
                    format!("the service {name} ended with {exit}{said}"),
                );
            }
            (ServiceState::Running, true, _) => {}
            (ServiceState::Running, false, _) => return Judged::Later(format!("{name} is not ready{said}")),
            (ServiceState::Idle, ..) => return Judged::Later(format!("{name} was stopped{said}")),
            (ServiceState::Waiting, ..) => return Judged::Later(format!("{name} waits for others{said}")),
            (ServiceState::Restarting, ..) => {
                return Judged::Later(format!("{name} ended and is restarting{said}"));
            }
        }
    }
    Judged::Ready
}

#[cfg(test)]
pub(crate) mod tests {
    use muster_ids::Env;
    use muster_model::allocation::Allocation;
    use muster_model::node::Capacity;
    use muster_wire::cell::ServiceFindings;

    use super::*;

    /// A cell for tests of pure functions.
    pub(crate) fn cell(env: &Env) -> Cell {
        let allocation =
            Allocation::requested(env.id(), env.id(), env.id(), "a", Capacity::default(), env.now());
        let requested =
            Cell::requested(env.id(), &allocation, env.id(), env.id(), "shell", json!({}), env.now());
        Cell { host: 2, state: CellState::Provisioning, incarnation: 2, ..requested }
    }

    /// Assesses a cell with one service in this state.
    fn of_service(restart: Restart, state: ServiceState, ready: bool, exit: Option<i32>) -> Judged {
        let spec = json!({"root": {"host": ["/usr"]},
                          "services": [{"name": "web", "command": ["/web"], "restart": restart}]});
        let service = ServiceFindings {
            name: "web".to_owned(),
            state,
            pid: 1,
            ready,
            restarts: 0,
            exit,
            message: None,
        };
        let found = CellFindings {
            present: true,
            incarnation: 2,
            services: vec![service],
            ..CellFindings::default()
        };
        judge(&cell(&Env::for_tests(1)), &serde_json::from_value(spec).unwrap(), &found)
    }

    #[test]
    fn absent_or_other_incarnation_fails_cell_verification() {
        let env = Env::for_tests(1);
        let spec = serde_json::from_value(json!({"root": {"host": ["/usr"]}})).unwrap();
        let seen = |present, incarnation| CellFindings { present, incarnation, ..CellFindings::default() };
        assert_eq!(judge(&cell(&env), &spec, &seen(true, 2)), Judged::Ready);
        for other in [seen(false, 2), seen(true, 1), seen(true, 3), CellFindings::default()] {
            let judged = judge(&cell(&env), &spec, &other);
            assert!(matches!(judged, Judged::Not(CellFailure::VerifyFailed, _)), "{judged:?}");
        }
    }

    #[test]
    fn a_service_is_ready_by_its_probe_or_by_having_ended_well_where_that_is_its_purpose() {
        use Restart::{Always, Never, OnFailure};
        use ServiceState::{Ended, Restarting, Running, Waiting};
        assert_eq!(of_service(OnFailure, Running, true, None), Judged::Ready);
        assert_eq!(of_service(Never, Ended, false, Some(0)), Judged::Ready);
        assert_eq!(of_service(OnFailure, Ended, false, Some(0)), Judged::Ready);
        for (restart, exit) in [(Never, Some(1)), (Always, Some(0)), (Never, None)] {
            let judged = of_service(restart, Ended, true, exit);
            assert!(matches!(judged, Judged::Not(CellFailure::ServiceEnded, _)), "{judged:?}");
        }
        for state in [Running, Waiting, Restarting] {
            assert!(matches!(of_service(OnFailure, state, false, None), Judged::Later(_)), "{state:?}");
        }
        assert!(matches!(of_service(OnFailure, Waiting, true, None), Judged::Later(_)));
    }

    #[test]
    fn unobserved_service_is_awaited() {
        let spec = json!({"root": {"host": ["/usr"]}, "services": [{"name": "web", "command": ["/web"]}]});
        let found = CellFindings { present: true, incarnation: 2, ..CellFindings::default() };
        let judged = judge(&cell(&Env::for_tests(1)), &serde_json::from_value(spec).unwrap(), &found);
        assert!(matches!(judged, Judged::Later(_)), "{judged:?}");
    }
}
