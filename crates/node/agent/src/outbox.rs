//! Reports that the server has not accepted yet. They need not survive the process: a restarted agent receives its tasks
//! again, and finds their results by inspection.

use std::sync::Mutex;

use muster_ids::TaskId;
use muster_wire::task::Report;
use tokio::sync::Notify;

/// Reports, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    reports: Mutex<Vec<Report>>,
    arrived: Notify,
}

impl Outbox {
    pub(crate) fn put(&self, report: Report) {
        self.reports.lock().expect("no holder of this lock can panic").push(report);
        self.arrived.notify_one();
    }

    /// Waits for reports, and returns up to `most` of them.
    pub(crate) async fn wait(&self, most: usize) -> Vec<Report> {
        loop {
            let shown: Vec<Report> = {
                let reports = self.reports.lock().expect("no holder of this lock can panic");
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
        self.reports
            .lock()
            .expect("no holder of this lock can panic")
            .retain(|report| !tasks.contains(&report.task_id));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reports.lock().expect("no holder of this lock can panic").is_empty()
    }
}
