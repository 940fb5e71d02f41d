//! Sends reports to the server until it accepts them.

use std::convert::Infallible;
use std::time::Duration;

use muster_ids::TaskId;
use muster_wire::task::Report;
use muster_wire::wire::{Reports, ReportsAccepted};

use crate::AgentError;
use crate::backoff::Backoff;
use crate::link::Link;
use crate::node::{Running, unless_retired};
use crate::paths;

const PATIENCE: Duration = Duration::from_secs(30);
const AT_ONCE: usize = 500;

pub(crate) async fn reporting(node: &Running) -> Result<Infallible, AgentError> {
    let mut link = Link::new(&node.dial);
    let mut backoff = Backoff::new(&node.env);
    let mut most = AT_ONCE;
    loop {
        let reports = node.outbox.wait(most).await;
        let session = node.session().await;
        let question = Reports { session, reports };
        let answer =
            unless_retired(link.call::<_, ReportsAccepted>(paths::REPORT, &question, PATIENCE).await)?;
        match answer {
            Ok(heard) => {
                backoff.reset();
                most = AT_ONCE;
                for refused in &heard.refused {
                    tracing::warn!(task = %refused, "the server no longer wants the report of this task; it is dropped");
                }
                told(node, &question.reports);
            }
            Err(error) if error.status() == Some(409) => node.session_lost(session),
            // The server rejects one of the reports permanently. They are sent one by one, so that only that one is dropped.
            Err(error) if matches!(error.status(), Some(400 | 413 | 422)) => {
                if let [report] = &question.reports[..] {
                    tracing::error!(task = %report.task_id, %error, "the server rejects this report as invalid; it is dropped");
                    told(node, &question.reports);
                }
                most = 1;
            }
            Err(error) => {
                tracing::warn!(%error, waiting = question.reports.len(), "reports were rejected; retrying");
                backoff.pause().await;
            }
        }
    }
}

fn told(node: &Running, reports: &[Report]) {
    let tasks: Vec<TaskId> = reports.iter().map(|report| report.task_id).collect();
    node.outbox.told(&tasks);
    let mut lanes = node.lanes.lock();
    tasks.into_iter().for_each(|task| lanes.release(task));
    drop(lanes);
    node.queued.notify_one();
    node.settled.notify_one();
}
