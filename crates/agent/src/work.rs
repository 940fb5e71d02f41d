//! Doing what tasks say: fenced, in order, and with a report for each.

use std::convert::Infallible;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use muster_node_api::task::{Details, Ending, Findings, Place, Report, Task, TaskKind};

use crate::AgentError;
use crate::fence::Barred;
use crate::lanes::{Job, Lane};
use crate::node::Running;
use crate::sim::Order;

/// Begins what can begin, for ever.
pub(crate) async fn working(node: &Running) -> Infallible {
    let mut under_way = FuturesUnordered::new();
    loop {
        for job in node.lanes.lock().expect("no holder of this lock can panic").begin() {
            under_way.push(perform(node, job));
        }
        tokio::select! {
            Some((lane, report)) = under_way.next() => {
                // Noted as untold before it is told, so that nothing comes in between.
                let task = report.as_ref().map(|report: &Report| report.task_id);
                node.lanes.lock().expect("no holder of this lock can panic").end(lane, task);
                report.into_iter().for_each(|report| node.outbox.put(report));
                node.settled.notify_one();
            }
            () = node.queued.notified() => {}
        }
    }
}

async fn perform(node: &Running, job: Job) -> (Lane, Option<Report>) {
    let lane = job.lane();
    tokio::time::sleep(node.driver.faults().latency()).await;
    match job {
        Job::Ghost(place, gone) => {
            let done = banish(node, &place);
            if let Err(why) = &done {
                tracing::error!(allocation = %place.allocation_id, why, "a ghost could not be destroyed");
            }
            // Who asked may have given up meanwhile.
            let _ = gone.send(done.is_ok());
            (lane, None)
        }
        // It may have been done in an earlier life, so nothing is said of it; the server knows by itself that it is over.
        Job::Task(task) if task.expires_at <= node.world.now() => {
            let (id, correlation_id) = (task.id, &task.correlation_id);
            tracing::warn!(task = %id, kind = ?task.kind, correlation_id, "expired before it was begun; it is dropped");
            node.lanes.lock().expect("no holder of this lock can panic").release(id);
            (lane, None)
        }
        Job::Task(task) => match outcome(node, &task) {
            Ok(outcome) => (lane, Some(report(node, &task, outcome))),
            // Nobody knows whether it happened, so nothing is said of it: the server will ask again.
            Err(error) => {
                let (id, correlation_id) = (task.id, &task.correlation_id);
                tracing::error!(task = %id, kind = ?task.kind, correlation_id, %error, "a task has no known end");
                node.lanes.lock().expect("no holder of this lock can panic").release(id);
                (lane, None)
            }
        },
    }
}

fn banish(node: &Running, place: &Place) -> Result<(), String> {
    let admitted = node.fences.lock().expect("no holder of this lock can panic").admit(
        TaskKind::Destroy,
        place,
        node.driver.incarnation(place.allocation_id),
        node.world.now(),
    );
    match admitted.map_err(|error| error.to_string())? {
        // What the server saw is gone already; what is there now is newer.
        Err(Barred::Stale(_)) => return Ok(()),
        Err(Barred::Occupied(why)) => return Err(why),
        Ok(()) => {}
    }
    let order = Order { kind: TaskKind::Destroy, place, details: &Details::default(), task: None };
    node.driver.carry_out(order).map_err(|error| error.to_string())?.map(drop)
}

/// How a task ended. The inner error is "surely not done".
fn outcome(node: &Running, task: &Task) -> Result<Result<Findings, String>, AgentError> {
    if task.kind == TaskKind::Survey {
        return Ok(node.driver.survey());
    }
    let Some(allocation_id) = task.allocation_id else {
        return Ok(Err(format!("{:?} needs an allocation", task.kind)));
    };
    let place = Place { allocation_id, incarnation: task.incarnation };
    let order = Order { kind: task.kind, place: &place, details: &task.details, task: Some(task.id) };
    let there = node.driver.incarnation(allocation_id);
    let admitted = node.fences.lock().expect("no holder of this lock can panic").admit(
        task.kind,
        &place,
        there,
        node.world.now(),
    )?;
    match admitted {
        Ok(()) => node.driver.carry_out(order),
        Err(Barred::Stale(why)) => {
            node.driver.refused_stale(order, &why)?;
            Ok(Err(why))
        }
        Err(Barred::Occupied(why)) => Ok(Err(why)),
    }
}

fn report(node: &Running, task: &Task, outcome: Result<Findings, String>) -> Report {
    let (id, kind, correlation_id) = (task.id, task.kind, &task.correlation_id);
    let (ending, findings, message) = match outcome {
        Ok(findings) => {
            tracing::info!(task = %id, ?kind, correlation_id, "done");
            (Ending::Done, findings, None)
        }
        Err(why) => {
            tracing::warn!(task = %id, ?kind, correlation_id, why, "not done");
            (Ending::Failed, Findings::default(), Some(why))
        }
    };
    node.driver.before_report(kind);
    let (incarnation, generation) = (task.incarnation, task.generation);
    Report { task_id: id, incarnation, generation, ending, findings, message }
}
