//! Reports that the server has not taken yet. They need not outlive the process: an agent that starts anew is handed
//! its tasks again, and finds what it did when it looks.

use std::sync::Mutex;

use muster_ids::TaskId;
use muster_wire::task::Report;
use tokio::sync::Notify;

/// The reports, oldest first.
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

    /// Waits until there is something to tell, and shows up to `most` of it.
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

    /// Drops what was told.
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
