//! Executes tasks: fenced, in order, and with a report for each.

use std::convert::Infallible;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use muster_wire::task::{Ending, Findings, Refusal, Report, Task};

use crate::AgentError;
use crate::driver::{Order, Outcome, StaleCopy, TaskOrder, Undone};
use crate::fence::{Barred, FencedSubject};
use crate::lanes::{Job, Lane};
use crate::node::Running;
use crate::provide::{Given, provide};

/// Starts jobs as they become ready, forever.
pub(crate) async fn working(node: &Running) -> Infallible {
    let mut under_way = FuturesUnordered::new();
    loop {
        for job in node.lanes.lock().begin() {
            under_way.push(perform(node, job));
        }
        tokio::select! {
            Some((lane, report)) = under_way.next() => {
                // Marked as unreported before the report is queued, so that no other job starts in between.
                let task = report.as_ref().map(|report: &Report| report.task_id);
                node.lanes.lock().end(lane, task);
                report.into_iter().for_each(|report| node.outbox.put(report));
                node.settled.notify_one();
            }
            () = node.queued.notified() => {}
        }
    }
}

async fn perform(node: &Running, job: Job) -> (Lane, Option<Report>) {
    let lane = job.lane();
    tokio::time::sleep(node.driver.latency()).await;
    match job {
        Job::StaleCopy(stale_copy, gone) => {
            let done = destroy_stale_copy(node, &stale_copy).await;
            if let Err(why) = &done {
                tracing::error!(?stale_copy, why, "a stale copy could not be destroyed");
            }
            // The receiver may have been dropped.
            let _ = gone.send(done.is_ok());
            (lane, None)
        }
        // An earlier agent process may have done it, so it is not reported; the server expires the task on its own.
        Job::Task(task) if task.expires_at <= node.env.now() => {
            let (id, correlation_id) = (task.id, &task.correlation_id);
            tracing::warn!(task = %id, kind = ?task.act.kind(), correlation_id, "expired before it was started; it is dropped");
            node.lanes.lock().release(id);
            (lane, None)
        }
        Job::Task(task) => match outcome(node, &task).await {
            Ok(outcome) => (lane, Some(report(node, &task, outcome))),
            // The result is unknown, so it is not reported: the server delivers the task again.
            Err(error) => {
                let (id, correlation_id) = (task.id, &task.correlation_id);
                tracing::error!(task = %id, kind = ?task.act.kind(), correlation_id, %error, "the result of a task is unknown");
                node.lanes.lock().release(id);
                (lane, None)
            }
        },
    }
}

async fn destroy_stale_copy(node: &Running, stale_copy: &StaleCopy) -> Result<(), String> {
    let order = Order::StaleCopy(stale_copy.clone());
    match admit(node, &order, matches!(stale_copy, StaleCopy::Sandbox(_)))
        .map_err(|error| error.to_string())?
    {
        // The copy known to the server is already removed; the existing one is newer.
        Err(Barred::Stale(_)) => return Ok(()),
        Err(Barred::Occupied(why)) => return Err(why),
        Ok(()) => {}
    }
    let done = node.driver.clone().carry_out(order).await.map_err(|error| error.to_string())?;
    done.map(drop).map_err(|undone| undone.why)
}

/// Checks an order against the fences of its allocation (if `of_sandbox`) and of its cell.
fn admit(node: &Running, order: &Order, of_sandbox: bool) -> Result<Result<(), Barred>, AgentError> {
    let Some(place) = order.sandbox() else { return Ok(Ok(())) };
    let now = node.env.now();
    let there = node.driver.incarnation(place.allocation_id)?;
    let cell = order.cell();
    let cell_there =
        cell.as_ref().map(|cell| node.driver.cell_incarnation(cell.cell_id)).transpose()?.flatten();
    let mut fences = node.fences.lock();
    if of_sandbox {
        let thing = FencedSubject { id: &place.allocation_id, incarnation: place.incarnation };
        if let Err(barred) = fences.admit(order.kind().to_sandbox_kind(), thing, there, now)? {
            return Ok(Err(barred));
        }
    }
    match cell {
        Some(cell) => {
            let thing = FencedSubject { id: &cell.cell_id, incarnation: cell.incarnation };
            fences.admit(order.kind(), thing, cell_there, now)
        }
        None => Ok(Ok(())),
    }
}

/// Returns the outcome of a task. The inner error is a definite failure.
async fn outcome(node: &Running, task: &Task) -> Outcome {
    let mut order = Order::Task(Box::new(TaskOrder {
        id: task.id,
        act: task.act.clone(),
        incarnation: task.incarnation,
        until: task.expires_at,
        given: Ok(Given::default()),
    }));
    let admitted = match admit(node, &order, true) {
        Ok(admitted) => admitted,
        // The fence could not be persisted, so nothing was done.
        Err(error) => match node.folder.shortage() {
            Some(full) => return Ok(Err(Undone::because(Refusal::NodeFull, full))),
            None => return Err(error),
        },
    };
    match admitted {
        Ok(()) => {
            let given = provide(node, &task.act, task.expires_at).await?;
            if let Order::Task(order) = &mut order {
                order.given = given;
            }
            node.driver.clone().carry_out(order).await
        }
        Err(Barred::Stale(why)) => {
            node.driver.refused_stale(&order, &why)?;
            Ok(Err(why.into()))
        }
        Err(Barred::Occupied(why)) => Ok(Err(why.into())),
    }
}

fn report(node: &Running, task: &Task, outcome: Result<Findings, Undone>) -> Report {
    let (id, kind, correlation_id) = (task.id, task.act.kind(), &task.correlation_id);
    let (ending, findings, message) = match outcome {
        Ok(findings) => {
            let mut findings = without_nul(findings);
            if let Some(cell) = &mut findings.cell {
                cell.services = node.host_paths.remove_from_services(std::mem::take(&mut cell.services));
            }
            tracing::info!(task = %id, ?kind, correlation_id, "done");
            (Ending::Done, findings, None)
        }
        Err(Undone { why, refusal }) => {
            tracing::warn!(task = %id, ?kind, correlation_id, why, ?refusal, "not done");
            let findings = Findings { refusal, ..Findings::default() };
            // The log line above has the whole reason; a tenant reads this one.
            let why = node.host_paths.remove_from(&why).replace('\0', "\u{fffd}");
            (Ending::Failed, findings, Some(why))
        }
    };
    node.driver.before_report(kind);
    let (incarnation, generation) = (task.incarnation, task.generation);
    Report { task_id: id, incarnation, generation, ending, findings, message }
}

/// Replaces NUL characters. Output of a cell is untrusted, and NUL cannot be stored as database text; it must not block a
/// report.
fn without_nul(findings: Findings) -> Findings {
    match serde_json::to_string(&findings) {
        Ok(text) if text.contains(NUL) => {
            serde_json::from_str(&text.replace(NUL, "\\ufffd")).unwrap_or(findings)
        }
        _ => findings,
    }
}

/// JSON escape of NUL.
const NUL: &str = "\\u0000";

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_wire::task::{Findings, KeptLog};

    use super::without_nul;

    #[test]
    fn a_tenant_s_nul_does_not_reach_the_server() {
        let log = |text: &str| {
            let cell_id = Env::for_tests(1).id();
            Findings {
                logs: vec![KeptLog { cell_id, service: "s".into(), text: text.into(), truncated: false }],
                ..Findings::default()
            }
        };
        assert_eq!(without_nul(log("a\0b")), log("a\u{fffd}b"));
        assert_eq!(without_nul(log("plain")), log("plain"));
    }
}
