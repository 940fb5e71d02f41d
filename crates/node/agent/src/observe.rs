//! Reports the status of cells as soon as it changes: a cell or a service ended, was restarted or became ready. Polls
//! confirm that the last report still holds, so that the server can distinguish silence from health.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use muster_cell::CellStatus;
use muster_ids::CellId;
use muster_wire::cell::ServiceFindings;
use muster_wire::wire::{CellObservation, Observations, Observed};

use crate::AgentError;
use crate::backoff::Backoff;
use crate::link::Link;
use crate::node::{Running, unless_retired};
use crate::paths;

const EVERY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum age of a confirmed observation.
const CURRENT: Duration = Duration::from_secs(5);

/// Reports whether the server has the current status of every cell.
pub(crate) fn is_current(node: &Running) -> bool {
    let observed = *node.observed.lock();
    observed.is_some_and(|at| at.elapsed() < CURRENT)
}

/// Reports for as long as the agent runs.
pub(crate) async fn observing(node: &Running) -> Result<Infallible, AgentError> {
    let mut link = Link::new(&node.dial);
    let mut backoff = Backoff::new(&node.env);
    let boot_id = node.driver.boot_id();
    // A new session starts with a full report.
    let (mut known_in, mut known) = (None, BTreeMap::new());
    loop {
        let session = node.session().await;
        if known_in != Some(session) {
            (known_in, known) = (Some(session), BTreeMap::new());
        }
        let found = match node.driver.clone().observe().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the status of cells cannot be read; retrying");
                backoff.pause().await;
                continue;
            }
        };
        let found: BTreeMap<CellId, CellObservation> = found
            .into_iter()
            .map(|status| (status.cell.cell_id, observation(node, status, &boot_id)))
            .collect();
        let changed: Vec<CellObservation> = found
            .iter()
            .filter(|(id, one)| known.get(*id) != Some(*one))
            .map(|(_, one)| one.clone())
            .collect();
        if !changed.is_empty() {
            let question = Observations { session, cells: changed };
            let answer = link.call::<_, Observed>(paths::OBSERVE, &question, PATIENCE).await;
            match unless_retired(answer)? {
                Ok(observed) => {
                    backoff.reset();
                    for cell in observed.refused {
                        tracing::debug!(%cell, "the server does not know this incarnation of a cell");
                    }
                }
                Err(error) if error.status() == Some(409) => {
                    node.session_lost(session);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "the status of cells was rejected; retrying");
                    backoff.pause().await;
                    continue;
                }
            }
        }
        known = found;
        *node.observed.lock() = Some(tokio::time::Instant::now());
        tokio::time::sleep(EVERY).await;
    }
}

fn observation(node: &Running, status: CellStatus, boot_id: &str) -> CellObservation {
    let paths = &node.host_paths;
    // The PID changes with each start and only matters on the node.
    let services = paths.remove_from_services(status.services).into_iter();
    let services = services.map(|service| ServiceFindings { pid: 0, ..service }).collect();
    CellObservation {
        cell: status.cell,
        alive: status.alive,
        boot_id: boot_id.to_owned(),
        services,
        message: status.message.map(|message| paths.remove_from(&message)),
    }
}
