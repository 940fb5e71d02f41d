//! Reports that the server has not accepted yet. They need not survive the process: a restarted agent receives its tasks
//! again, and finds their results by inspection.

use muster_ids::TaskId;
use muster_wire::task::Report;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Reports, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    reports: Mutex<Vec<Report>>,
    arrived: Notify,
}

impl Outbox {
    pub(crate) fn put(&self, report: Report) {
        self.reports.lock().push(report);
        self.arrived.notify_one();
    }

    /// Waits for reports, and returns up to `most` of them.
    pub(crate) async fn wait(&self, most: usize) -> Vec<Report> {
        loop {
            let shown: Vec<Report> = {
                let reports = self.reports.lock();
                reports.iter().take(most).cloned().collect()
            };
            if !shown.is_empty() {
                return shown;
            }
            self.arrived.notified().await;
        }
    }

    /// Drops accepted reports.
    pub(crate) fn told(&self, tasks: &[TaskId]) {
        self.reports.lock().retain(|report| !tasks.contains(&report.task_id));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reports.lock().is_empty()
    }
}
