//! Cells that must not go on without the platform: after so long without a word from it, the node destroys them by itself.
//!
//! The platform waits for twice that before it lets another take the place of such a cell. A healthy node hears an answer with
//! every poll, so a limit that is shorter than two of them is taken for two.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::lanes::{Ghost, Job};
use crate::node::Running;

/// How often to look.
const LOOK: Duration = Duration::from_secs(1);
/// No limit is shorter: what a slow answer costs must not look like a partition.
const LEAST: Duration = Duration::from_secs(5);

/// The server has answered.
pub(crate) fn heard(node: &Running) {
    *node.heard.lock().expect("no holder of this lock can panic") = Instant::now();
}

/// Looks, for as long as the agent runs.
pub(crate) async fn watching(node: &Running) -> Infallible {
    loop {
        tokio::time::sleep(LOOK).await;
        let silent = node.heard.lock().expect("no holder of this lock can panic").elapsed();
        if silent < LEAST {
            continue;
        }
        let cells = match node.driver.stop_alone() {
            Ok(cells) => cells,
            Err(error) => {
                tracing::error!(%error, "which cells must stop cannot be seen; trying again");
                continue;
            }
        };
        let poll = node.poll_length();
        for (place, limit) in cells {
            if silent < Duration::from_secs(u64::from(limit)).max(poll * 2) {
                continue;
            }
            tracing::warn!(cell = %place.cell_id, seconds = silent.as_secs(), "nothing was heard for too long: destroying it");
            let (gone, done) = oneshot::channel();
            node.queue(Job::Ghost(Ghost::Cell(place), gone));
            let _ = done.await;
        }
    }
}
