//! Self-fencing: the node destroys cells with a partition limit after that long without contact to the platform.
//!
//! The platform waits before it replaces such a cell, for a time that it computes from the rules here (`self_fencing.rs` of
//! the engine). A healthy node gets a response to every poll, so a limit shorter than two polls is raised to two.
//!
//! The cells are killed first, all of them and without a grace period, because a replacement may already be running. Their
//! remains are then removed like those of a stale copy, each in its allocation's queue. State directories are kept: a lost
//! connection is no order to delete data.
//!
//! The time of the last contact is kept on disk, so that an agent that crashes repeatedly does not restart the count.

use std::convert::Infallible;
use std::time::Duration;

use muster_wire::cell::CellRef;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::driver::StaleCopy;
use crate::folder::Folder;
use crate::lanes::Job;
use crate::node::Running;

/// Interval of the checks.
const LOOK: Duration = Duration::from_secs(1);
/// Lower bound of every limit: a slow response must not count as a partition.
const LEAST: Duration = Duration::from_secs(5);
const FILE: &str = "heard.json";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Time of the last contact to the platform, on the boot-time clock, which includes suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastContact {
    at: Duration,
    /// Poll duration at that time.
    poll: Duration,
}

/// On-disk form. A contact from an earlier boot is ignored: no cell is left from then.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    boot: String,
    heard: LastContact,
}

impl LastContact {
    /// Returns the last contact recorded in the folder, or now if there is none.
    pub(crate) fn remembered(folder: &Folder) -> Self {
        // The file is written atomically, and a power cut leaves only a file of an earlier boot.
        let kept = folder.read_document(FILE).unwrap_or_else(|error| {
            tracing::warn!(%error, "the time of the platform's last answer is unreadable; counting from now on");
            None
        });
        since(kept, &boot(), uptime())
    }

    /// Returns the last known duration of one poll.
    pub(crate) fn poll(&self) -> Duration {
        self.poll
    }

    fn keep(self, folder: &Folder) {
        // The record need not survive the machine, so it is not flushed.
        let folder = Folder::unflushed(folder.path());
        if let Err(error) = folder.write_document(FILE, &Kept { boot: boot(), heard: self }) {
            tracing::warn!(%error, "the time of the platform's last answer cannot be written");
        }
    }
}

fn since(kept: Option<Kept>, boot: &str, now: Duration) -> LastContact {
    let same = kept.filter(|kept| kept.boot == boot && kept.heard.at <= now);
    same.map_or(LastContact { at: now, poll: Duration::from_secs(10) }, |kept| kept.heard)
}

pub(crate) fn boot() -> String {
    std::fs::read_to_string(BOOT).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn uptime() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// Records a response of the server.
pub(crate) fn heard(node: &Running) {
    let now = LastContact { at: uptime(), poll: node.poll_length() };
    *node.heard.lock() = now;
}

/// Checks for as long as the agent runs.
pub(crate) async fn watching(node: &Running) -> Infallible {
    let mut kept = None;
    let mut ending: Vec<(CellRef, oneshot::Receiver<bool>)> = Vec::new();
    loop {
        let heard = *node.heard.lock();
        if kept != Some(heard) {
            heard.keep(&node.folder);
            kept = Some(heard);
        }
        tokio::time::sleep(LOOK).await;
        ending.retain_mut(|(_, gone)| gone.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        for (place, silent) in too_long(node) {
            // Repeated with each check: a cell that was being created when the limit passed may have started since.
            node.driver.kill_cell(&place);
            if ending.iter().any(|(other, _)| *other == place) {
                continue;
            }
            tracing::warn!(cell = %place.cell_id, seconds = silent.as_secs(), "the platform did not answer for too long: destroying it");
            let (gone, done) = oneshot::channel();
            node.queue(Job::StaleCopy(StaleCopy::Cell { cell: place.clone(), keep_state: true }, gone));
            ending.push((place, done));
        }
    }
}

/// Returns the cells past their limit, and the time since the last contact.
fn too_long(node: &Running) -> Vec<(CellRef, Duration)> {
    let heard = *node.heard.lock();
    let silent = uptime().saturating_sub(heard.at);
    if silent < LEAST {
        return Vec::new();
    }
    match node.driver.stop_self_fenced() {
        Ok(cells) => {
            let over = |limit: u32| silent >= Duration::from_secs(u64::from(limit)).max(heard.poll * 2);
            let cells = cells.into_iter().filter(|(_, limit)| over(*limit));
            cells.map(|(place, _)| (place, silent)).collect()
        }
        Err(error) => {
            tracing::error!(%error, "the cells to stop cannot be listed; retrying");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Folder, Kept, LastContact, since};

    #[test]
    fn last_contact_counts_until_the_machine_reboots() {
        let (then, now) = (Duration::from_secs(40), Duration::from_secs(100));
        let heard = LastContact { at: then, poll: Duration::from_secs(1) };
        let kept = || Some(Kept { boot: "one".to_owned(), heard });
        assert_eq!(since(kept(), "one", now), heard);
        assert_eq!(since(kept(), "two", now).at, now);
        assert_eq!(since(kept(), "one", Duration::from_secs(3)).at, Duration::from_secs(3));
        assert_eq!(since(None, "one", now).at, now);
    }

    #[test]
    fn last_contact_is_restored_by_the_next_agent() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path());
        let first = LastContact::remembered(&folder);
        first.keep(&folder);
        assert_eq!(LastContact::remembered(&folder), first);
    }
}
