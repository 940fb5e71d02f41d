//! The driver that provisions sandboxes and cells: real or simulated. The rest of an agent is the same for both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cell::CellStatus;
use muster_ids::{AllocationId, CellId, TaskId};
use muster_image::{Digest, ImageHold, ImageReservation};
use muster_wire::cell::{CellPlace, Wanted};
use muster_wire::task::{Details, Findings, Place, Refusal, TaskKind};

use crate::provide::Given;

use crate::sim;
use crate::stream::Inside;
use crate::{AgentError, real};

/// An order to a driver.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) kind: TaskKind,
    /// The sandbox concerned, or that of the cell; none for orders about the whole node.
    pub(crate) place: Option<Place>,
    pub(crate) details: Details,
    pub(crate) task: Option<TaskId>,
    /// Expiry; unlimited for orders that are not tasks.
    pub(crate) until: Timestamp,
    /// Content supplied by the server beside the order, or the reason why it could not be fetched. In that case nothing may
    /// be left of the cell.
    pub(crate) given: Result<Given, Undone>,
}

/// A definite failure: the order was not done. Carries the reason, and its code if the protocol has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undone {
    pub(crate) why: String,
    pub(crate) refusal: Option<Refusal>,
}

impl From<String> for Undone {
    fn from(why: String) -> Self {
        Self { why, refusal: None }
    }
}

impl Undone {
    pub(crate) fn because(refusal: Refusal, why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string(), refusal: Some(refusal) }
    }
}

/// Outcome of an order. The inner error is a definite failure, the outer error an unknown result.
pub(crate) type Outcome = Result<Result<Findings, Undone>, AgentError>;

/// Availability of an image on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Unpacked on this node.
    There,
    /// Must be pulled.
    Missing,
    /// Absent: a simulated node requests what it would need, and simulates the rest.
    Pretended,
}

/// The driver that provisions sandboxes and cells.
#[derive(Debug, Clone)]
pub enum Driver {
    /// Records only.
    Simulated(Arc<sim::Driver>),
    /// The machine itself.
    Real(Arc<real::Driver>),
}

impl Driver {
    /// Lists every sandbox on the node, found by inspection.
    pub fn places(&self) -> Result<Vec<Place>, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.places()),
            Self::Real(driver) => driver.places(),
        }
    }

    /// Returns the directories of the machine in which it works.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        match self {
            Self::Simulated(_) => Vec::new(),
            Self::Real(driver) => driver.folders(),
        }
    }

    /// Lists every cell on the node, found by inspection.
    pub(crate) fn cells(&self) -> Result<Vec<CellPlace>, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.cells()),
            Self::Real(driver) => driver.cells(),
        }
    }

    /// Returns the status of every started cell.
    pub(crate) async fn observe(&self) -> Result<Vec<CellStatus>, AgentError> {
        match self {
            Self::Simulated(driver) => driver.observe(),
            Self::Real(driver) => {
                let driver = driver.clone();
                let work = tokio::task::spawn_blocking(move || driver.observe());
                work.await.map_err(|error| AgentError::Refused(format!("the driver failed: {error}")))?
            }
        }
    }

    /// Returns the cells with a partition limit, and the limit in seconds.
    pub(crate) fn stop_self_fenced(&self) -> Result<Vec<(CellPlace, u32)>, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.stop_self_fenced()),
            Self::Real(driver) => driver.stop_self_fenced(),
        }
    }

    /// Kills every process of a cell at once. Destroying the cell removes its remains.
    pub(crate) fn kill_cell(&self, cell: &CellPlace) {
        match self {
            // A simulated cell has no processes.
            Self::Simulated(_) => {}
            Self::Real(driver) => driver.kill_cell(cell),
        }
    }

    /// Returns the boot id of the machine.
    pub(crate) fn boot_id(&self) -> String {
        match self {
            Self::Simulated(driver) => driver.boot_id(),
            Self::Real(_) => crate::self_fencing::boot(),
        }
    }

    /// Returns the incarnation of an allocation's sandbox on the node.
    pub(crate) fn incarnation(&self, allocation: AllocationId) -> Result<Option<i64>, AgentError> {
        let places = self.places()?;
        Ok(places.iter().find(|place| place.allocation_id == allocation).map(|place| place.incarnation))
    }

    /// Returns the incarnation of a cell on the node.
    pub(crate) fn cell_incarnation(&self, cell: CellId) -> Result<Option<i64>, AgentError> {
        let cells = self.cells()?;
        Ok(cells.iter().find(|place| place.cell_id == cell).map(|place| place.incarnation))
    }

    /// Reports whether this incarnation of a cell is running, so that creating it needs no further content.
    pub(crate) fn runs(&self, cell: CellId, incarnation: i64) -> Result<bool, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.runs(cell, incarnation)),
            Self::Real(driver) => driver.runs(cell, incarnation),
        }
    }

    /// Returns the availability of an image on the node.
    pub(crate) fn supply(&self, digest: &Digest) -> Result<Supply, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.supply()),
            Self::Real(driver) => driver.supply(digest),
        }
    }

    /// Protects an image from eviction for as long as the hold lives; a simulated node has no images.
    pub(crate) fn hold_image(&self, digest: &Digest) -> Option<ImageHold> {
        match self {
            Self::Simulated(_) => None,
            Self::Real(driver) => Some(driver.hold_image(digest)),
        }
    }

    /// Counts an image against the budget of its project before it is fetched.
    pub(crate) async fn reserve_image(
        &self,
        digest: &Digest,
        bytes: u64,
        owner: real::ImageOwner,
    ) -> Result<Option<ImageReservation>, Undone> {
        let Self::Real(driver) = self else { return Ok(None) };
        let (driver, digest) = (driver.clone(), *digest);
        let reserved = tokio::task::spawn_blocking(move || driver.reserve_image(&digest, bytes, owner)).await;
        reserved.unwrap_or_else(|error| Err(format!("the driver failed: {error}").into()))
    }

    /// Evicts unused images until `bytes` can be written, if that can free enough.
    pub(crate) async fn evict_for(&self, bytes: u64) {
        let Self::Real(driver) = self else { return };
        let driver = driver.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || driver.evict_for(bytes)).await {
            tracing::warn!(%error, "unused images could not be evicted");
        }
    }

    /// Ends the process if this is the configured crash point.
    pub(crate) fn reach_point(&self, point: &'static str) {
        match self {
            Self::Simulated(driver) => driver.reach_point(point),
            Self::Real(driver) => driver.reach_point(point),
        }
    }

    /// Executes an order, and inspects the result.
    pub(crate) async fn carry_out(&self, order: Order) -> Outcome {
        match self {
            Self::Simulated(driver) => {
                tokio::time::sleep(driver.takes(&order)).await;
                driver.carry_out(&order)
            }
            Self::Real(driver) => {
                let driver = driver.clone();
                let work = tokio::task::spawn_blocking(move || driver.carry_out(&order));
                work.await.map_err(|error| AgentError::Refused(format!("the driver failed: {error}")))?
            }
        }
    }

    /// Records the refusal of a stale order.
    pub(crate) fn refused_stale(&self, order: &Order, why: &str) -> Result<(), AgentError> {
        match self {
            Self::Simulated(driver) => driver.refused_stale(order, why),
            Self::Real(_) => Ok(()),
        }
    }

    /// Marks the point before a report.
    pub(crate) fn before_report(&self, kind: TaskKind) {
        match self {
            Self::Simulated(driver) => driver.before_report(kind),
            Self::Real(driver) => driver.before_report(kind),
        }
    }

    /// Reconciles the node with its desired state beside its sandboxes, and returns the revision reached.
    pub(crate) async fn follow(&self, wanted: Wanted) -> Result<i64, AgentError> {
        match self {
            Self::Simulated(_) => Ok(wanted.revision),
            Self::Real(driver) => {
                let driver = driver.clone();
                let work =
                    tokio::task::spawn_blocking(move || driver.follow(&wanted).map(|()| wanted.revision));
                work.await.map_err(|error| AgentError::Refused(format!("the driver failed: {error}")))?
            }
        }
    }

    /// Returns the address at which other nodes reach this one; none for a simulated node.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Simulated(_) => None,
            Self::Real(driver) => Some(driver.address().to_string()),
        }
    }

    /// Returns the identity of the file system shared with other nodes. Simulated nodes have none to inspect, and all report
    /// the same one.
    pub(crate) fn shared_files(&self) -> Option<String> {
        match self {
            Self::Simulated(_) => Some("simulated".to_owned()),
            Self::Real(driver) => driver.shared_files(),
        }
    }

    /// Returns the number of allocations whose checks may run at once.
    pub(crate) fn checked_at_once(&self) -> usize {
        match self {
            // Its checks use nothing.
            Self::Simulated(_) => usize::MAX,
            Self::Real(driver) => driver.checked_at_once(),
        }
    }

    /// Returns the access that streams have to its cells.
    pub(crate) fn inside(&self) -> Arc<dyn Inside> {
        match self {
            Self::Simulated(driver) => driver.inside(),
            Self::Real(driver) => Arc::new(real::Shared(driver.clone())),
        }
    }

    /// Marks the agent as stopping or starting. A stopping agent waits for nothing.
    pub(crate) fn leave(&self, left: bool) {
        match self {
            Self::Simulated(_) => {}
            Self::Real(driver) => driver.leave(left),
        }
    }

    /// Returns the simulated delay before an order.
    pub(crate) fn latency(&self) -> Duration {
        match self {
            Self::Simulated(driver) => driver.faults().latency(),
            Self::Real(_) => Duration::ZERO,
        }
    }

    /// Returns the simulated delay before a heartbeat.
    pub(crate) fn heartbeat_jitter(&self) -> Duration {
        match self {
            Self::Simulated(driver) => driver.faults().heartbeat_jitter(),
            Self::Real(_) => Duration::ZERO,
        }
    }

    /// Supervises services until dropped.
    pub(crate) async fn supervise(&self, env: &muster_ids::Env) -> std::convert::Infallible {
        match self {
            Self::Simulated(_) => std::future::pending().await,
            Self::Real(driver) => loop {
                let (driver, now) = (driver.clone(), env.now());
                if let Err(error) = tokio::task::spawn_blocking(move || driver.supervise(now)).await {
                    tracing::error!(%error, "supervision failed; retrying");
                }
                tokio::time::sleep(real::LOOK).await;
            },
        }
    }
}
