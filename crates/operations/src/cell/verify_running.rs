//! See for ourselves that the cell is there, is what was asked for, and that everything in it is ready.

use futures::future::BoxFuture;
use jiff::SignedDuration;
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellFailure, CellState};
use muster_model::event::EventType;
use muster_model::task::TaskKind;
use muster_model::witness::Transition;
use muster_node_api::cell::CellSpec;
use muster_node_api::cell::{CellFindings, Restart, ServiceState};
use muster_store::{Result, StoreError};
use serde_json::json;

use super::subject::{allocation, evidence, order, path, refused, seen, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Asked, ask, ask_anew};
use crate::{Act, Verdict};

pub(super) const VERIFY_RUNNING: Step = Step {
    name: "verify_running",
    does: "looks at it on the node until everything in it is ready",
    verifies: true,
    run,
    undo: Undo::None("looking changes nothing"),
};

/// The agent itself waits a little for what is not ready yet, so this is only the pause between two of its looks.
const PAUSE: SignedDuration = SignedDuration::from_millis(200);

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let cell = subject(cx).await?;
        let allocation = allocation(cx, &cell).await?;
        if allocation.state != AllocationState::Active || cell.state.is_final() {
            let why = format!("its allocation {} is {}", allocation.name, allocation.state);
            return Ok(refused(CellFailure::AllocationEnded, why).into());
        }
        let wanted = order(cx, &cell, &allocation, TaskKind::CellInspect, "inspect").await?;
        let (task, found) = match ask(cx, &wanted).await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Done(task, found) => (task, seen(&found)),
            Asked::Failed(why) => return Ok(refused(CellFailure::VerifyFailed, why).into()),
        };
        let spec: CellSpec = serde_json::from_value(cell.spec.clone())
            .map_err(|_| StoreError::Corrupt("what a cell is made of"))?;
        match judge(&cell, &spec, &found) {
            Judged::Ready => {}
            Judged::Not(reason, why) => return Ok(refused(reason, why).into()),
            Judged::Later(why) => {
                let until = task.finished_at.unwrap_or(cx.now) + PAUSE;
                if cx.now < until {
                    return Ok(Verdict::Wait { reason: why, until }.into());
                }
                return ask_anew(cx, &wanted, &task);
            }
        }
        let checked = json!({"present": true, "incarnation": cell.incarnation, "address": found.address,
                             "services_ready": found.services.iter().map(|service| &service.name).collect::<Vec<_>>()});
        let witness = evidence(cx, &cell, Transition::Active, &task, checked);
        let (now, operation_id) = (cx.now, cx.operation.id);
        Ok(Act::write(move |tx, told| {
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
                told.events.push((EventType::CellRunning, path(&after), data));
                Ok(Verdict::witnessed(witness.id, json!(null)))
            })
        }))
    })
}

/// What is to be thought of what the agent saw.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    Ready,
    /// Not yet, and why.
    Later(String),
    /// And it will not be.
    Not(CellFailure, String),
}

fn judge(cell: &Cell, spec: &CellSpec, found: &CellFindings) -> Judged {
    if !found.present {
        return Judged::Not(
            CellFailure::VerifyFailed,
            "the node says that it made it, but it is not there".to_owned(),
        );
    }
    if found.incarnation != cell.incarnation {
        let why = format!("it is of incarnation {}, not {}", found.incarnation, cell.incarnation);
        return Judged::Not(CellFailure::VerifyFailed, why);
    }
    for service in &spec.services {
        let name = &service.name;
        let Some(seen) = found.services.iter().find(|seen| seen.name == *name) else {
            return Judged::Later(format!("the service {name} has not been started"));
        };
        let said = seen.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        match (seen.state, seen.ready, seen.exit) {
            // A service that is to run once and did is as ready as it will be.
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
            (ServiceState::Waiting, ..) => return Judged::Later(format!("{name} waits for others{said}")),
            (ServiceState::Restarting, ..) => {
                return Judged::Later(format!("{name} ended and is started again{said}"));
            }
        }
    }
    Judged::Ready
}
