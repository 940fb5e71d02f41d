//! Agents report the results of their tasks.

use muster_db::{StoreError, TaskReport};
use muster_model::task::{Task, TaskKind, TaskState};
use muster_wire::task::{Ending, Report};
use muster_wire::wire::{Reports, ReportsAccepted};
use serde_json::json;

use super::admit::Admitted;
use crate::adapter_task::PREFIX;
use crate::{Cx, Error, Result};

/// Handles `report`. Each report is processed by itself: a stale one does not delay the others.
pub async fn report(cx: &Cx, agent: &Admitted, body: Reports) -> Result<ReportsAccepted> {
    agent.current(body.session)?;
    let platform = &cx.platform;
    platform.fleet.hear(agent.node);
    let mut refused = Vec::new();
    for report in body.reports {
        let id = report.task_id;
        let said = TaskReport {
            id,
            incarnation: report.incarnation,
            generation: report.generation,
            state: ended(&report),
            result: json!(report.findings),
            message: report.message,
        };
        match take(cx, agent, body.session, &said).await {
            // There may be no waiting receiver.
            Ok(For::Adapter) => drop(platform.tasks_ended.send(id)),
            Ok(For::Engine) => platform.fleet.engine_wake.notify_one(),
            Err(StoreError::Fenced) => {
                platform.metrics.stale_reports.inc();
                tracing::warn!(node = %agent.node, task = %id, "a report came too late and was rejected");
                refused.push(id);
            }
            // Earlier reports are committed; the agent retries all of them, and those are recognized as repeats.
            Err(error) => return Err(Error::from(error)),
        }
    }
    Ok(ReportsAccepted { refused })
}

fn ended(report: &Report) -> TaskState {
    match report.ending {
        Ending::Done => TaskState::Done,
        Ending::Failed => TaskState::Failed,
    }
}

/// Owner of a task's result.
enum For {
    Engine,
    Adapter,
}

/// Stores the report and wakes its operation, in one transaction. Locks the operation's row first, in the engine's order:
/// opposite lock orders would deadlock. Checks the session again at the end: a newer agent may have started a session since,
/// and then the task is its to report on.
async fn take(cx: &Cx, agent: &Admitted, session: i64, said: &TaskReport) -> muster_db::Result<For> {
    let store = &cx.platform.store;
    let task = store.task_lookup(said.id).await?.ok_or(StoreError::Fenced)?;
    let waits = if task.key.starts_with(PREFIX) { For::Adapter } else { For::Engine };
    if said_before(&task, agent, said) {
        return Ok(waits);
    }
    let mut tx = store.begin().await?;
    let written = async {
        // A stream has no operation: its client waits for the agent's connection. An adapter's task concerns the engine only
        // once the adapter reports.
        if task.kind != TaskKind::Stream && matches!(waits, For::Engine) {
            tx.operation_wake(task.operation_id, cx.now).await?;
        }
        tx.task_report(agent.node, said, cx.now).await?;
        tx.node_in_session(agent.node, session).await
    };
    match written.await {
        Ok(()) => tx.commit().await.map(|()| waits),
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// Reports whether this is a retry of a report with a lost response. Such a retry is not stale.
fn said_before(task: &Task, agent: &Admitted, said: &TaskReport) -> bool {
    task.node_id == agent.node
        && (task.incarnation, task.generation) == (said.incarnation, said.generation)
        && task.state == said.state
        && task.result.as_ref() == Some(&said.result)
}
