//! Cells that must not go on without the platform: after so long without a word from it, the node destroys them by itself.
//!
//! The platform waits for twice that before it lets another take the place of such a cell. A healthy node hears an answer with
//! every poll, so a limit that is shorter than two of them is taken for two.
//!
//! They are killed first, all of them and without grace, because each moment that they go on is one in which another may be
//! there too; what is left of them is then removed as that of a ghost, each in its allocation's turn. Their state directories
//! stay: that nobody was heard is no word to forget anything.
//!
//! When the platform was last heard is kept on disk, so that an agent that dies again and again does not count anew each time.

use std::convert::Infallible;
use std::time::Duration;

use muster_wire::cell::CellPlace;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::folder::Folder;
use crate::lanes::{Ghost, Job};
use crate::node::Running;

/// How often to look.
const LOOK: Duration = Duration::from_secs(1);
/// No limit is shorter: what a slow answer costs must not look like a partition.
const LEAST: Duration = Duration::from_secs(5);
const FILE: &str = "heard.json";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// When the platform was last heard, by the clock that starts with the machine and goes on while it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heard {
    at: Duration,
    /// How long a poll lasted then.
    poll: Duration,
}

/// As it is kept. What was heard before the machine started says nothing: no cell is left from then.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    boot: String,
    heard: Heard,
}

impl Heard {
    /// What an agent knew that worked in this folder before, and from now on if there is nothing.
    pub(crate) fn remembered(folder: &Folder) -> Self {
        // It is written in one step, and what a power cut leaves of it is of another start of the machine.
        let kept = folder.read_document(FILE).unwrap_or_else(|error| {
            tracing::warn!(%error, "when the platform was last heard cannot be read; counting from now on");
            None
        });
        since(kept, &boot(), uptime())
    }

    /// How long one poll lasts, as far as is known.
    pub(crate) fn poll(&self) -> Duration {
        self.poll
    }

    fn keep(self, folder: &Folder) {
        // It need not outlive the machine, so no disk is waited for.
        let folder = Folder::unflushed(folder.path());
        if let Err(error) = folder.write_document(FILE, &Kept { boot: boot(), heard: self }) {
            tracing::warn!(%error, "when the platform was last heard cannot be written down");
        }
    }
}

fn since(kept: Option<Kept>, boot: &str, now: Duration) -> Heard {
    let same = kept.filter(|kept| kept.boot == boot && kept.heard.at <= now);
    same.map_or(Heard { at: now, poll: Duration::from_secs(10) }, |kept| kept.heard)
}

pub(crate) fn boot() -> String {
    std::fs::read_to_string(BOOT).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn uptime() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// The server has answered.
pub(crate) fn heard(node: &Running) {
    let now = Heard { at: uptime(), poll: node.poll_length() };
    *node.heard.lock().expect("no holder of this lock can panic") = now;
}

/// Looks, for as long as the agent runs.
pub(crate) async fn watching(node: &Running) -> Infallible {
    let mut kept = None;
    let mut ending: Vec<(CellPlace, oneshot::Receiver<bool>)> = Vec::new();
    loop {
        let heard = *node.heard.lock().expect("no holder of this lock can panic");
        if kept != Some(heard) {
            heard.keep(&node.folder);
            kept = Some(heard);
        }
        tokio::time::sleep(LOOK).await;
        ending.retain_mut(|(_, gone)| gone.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        for (place, silent) in too_long(node) {
            // Again with each look: one that was being made when the time was over may have come to life since.
            node.driver.kill_cell(&place);
            if ending.iter().any(|(other, _)| *other == place) {
                continue;
            }
            tracing::warn!(cell = %place.cell_id, seconds = silent.as_secs(), "nothing was heard for too long: destroying it");
            let (gone, done) = oneshot::channel();
            node.queue(Job::Ghost(Ghost::Cell { cell: place.clone(), keep_state: true }, gone));
            ending.push((place, done));
        }
    }
}

/// The cells whose time is over, and how long nothing was heard.
fn too_long(node: &Running) -> Vec<(CellPlace, Duration)> {
    let heard = *node.heard.lock().expect("no holder of this lock can panic");
    let silent = uptime().saturating_sub(heard.at);
    if silent < LEAST {
        return Vec::new();
    }
    match node.driver.stop_alone() {
        Ok(cells) => {
            let over = |limit: u32| silent >= Duration::from_secs(u64::from(limit)).max(heard.poll * 2);
            let cells = cells.into_iter().filter(|(_, limit)| over(*limit));
            cells.map(|(place, _)| (place, silent)).collect()
        }
        Err(error) => {
            tracing::error!(%error, "which cells must stop cannot be seen; trying again");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Folder, Heard, Kept, since};

    #[test]
    fn what_was_heard_counts_until_the_machine_starts_anew() {
        let (then, now) = (Duration::from_secs(40), Duration::from_secs(100));
        let heard = Heard { at: then, poll: Duration::from_secs(1) };
        let kept = || Some(Kept { boot: "one".to_owned(), heard });
        assert_eq!(since(kept(), "one", now), heard);
        assert_eq!(since(kept(), "two", now).at, now);
        assert_eq!(since(kept(), "one", Duration::from_secs(3)).at, Duration::from_secs(3));
        assert_eq!(since(None, "one", now).at, now);
    }

    #[test]
    fn what_was_heard_is_found_by_the_next_agent() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path());
        let first = Heard::remembered(&folder);
        first.keep(&folder);
        assert_eq!(Heard::remembered(&folder), first);
    }
}
