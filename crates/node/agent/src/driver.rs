//! Who makes places and cells: the real driver, or the simulated one. Everything else of an agent is the same for both.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cell::CellStatus;
use muster_ids::{AllocationId, CellId, TaskId};
use muster_image::{Digest, ImageHold};
use muster_wire::cell::{CellPlace, Wanted};
use muster_wire::task::{Details, Findings, Place, Refusal, TaskKind};

use crate::provide::Given;

use crate::sim;
use crate::stream::Inside;
use crate::{AgentError, real};

/// Something that is asked of a driver.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) kind: TaskKind,
    /// The allocation's place that it is about, or whose cell; none for what concerns the whole node.
    pub(crate) place: Option<Place>,
    pub(crate) details: Details,
    pub(crate) task: Option<TaskId>,
    /// When nobody waits for it any more; never, for what nobody asked for.
    pub(crate) until: Timestamp,
    /// What the server gave for it beside what it says; or why it could not be had. Then nothing may be left of the cell.
    pub(crate) given: Result<Given, Undone>,
}

/// "Surely not done", as a sentence, and whether the reason is one that the server has a word for.
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

/// How an order ended: the inner error is "surely not done", the outer "nobody knows".
pub(crate) type Outcome = Result<Result<Findings, Undone>, AgentError>;

/// How an image comes to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// It is unpacked here.
    There,
    /// It must be fetched.
    Missing,
    /// It is nowhere: a simulated node asks for what it would need, and pretends the rest.
    Pretended,
}

/// Who makes places and cells.
#[derive(Debug, Clone)]
pub enum Driver {
    /// Records.
    Simulated(Arc<sim::Driver>),
    /// The machine itself.
    Real(Arc<real::Driver>),
}

impl Driver {
    /// Every place on the node, found by looking.
    pub fn places(&self) -> Result<Vec<Place>, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.places()),
            Self::Real(driver) => driver.places(),
        }
    }

    /// Every cell on the node, found by looking.
    pub(crate) fn cells(&self) -> Result<Vec<CellPlace>, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.cells()),
            Self::Real(driver) => driver.cells(),
        }
    }

    /// The status of every cell that was started.
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

    /// The cells that must not go on without the platform, each with how many seconds it may.
    pub(crate) fn stop_alone(&self) -> Result<Vec<(CellPlace, u32)>, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.stop_alone()),
            Self::Real(driver) => driver.stop_alone(),
        }
    }

    /// Kills everything in a cell at once; what is left of it is removed by whoever destroys it.
    pub(crate) fn kill_cell(&self, cell: &CellPlace) {
        match self {
            // Nothing runs in a simulated one.
            Self::Simulated(_) => {}
            Self::Real(driver) => driver.kill_cell(cell),
        }
    }

    /// Which start of the machine this is.
    pub(crate) fn boot_id(&self) -> String {
        match self {
            Self::Simulated(driver) => driver.boot_id(),
            Self::Real(_) => crate::alone::boot(),
        }
    }

    /// Which incarnation of an allocation's place is there.
    pub(crate) fn incarnation(&self, allocation: AllocationId) -> Result<Option<i64>, AgentError> {
        let places = self.places()?;
        Ok(places.iter().find(|place| place.allocation_id == allocation).map(|place| place.incarnation))
    }

    /// Which incarnation of a cell is there.
    pub(crate) fn cell_incarnation(&self, cell: CellId) -> Result<Option<i64>, AgentError> {
        let cells = self.cells()?;
        Ok(cells.iter().find(|place| place.cell_id == cell).map(|place| place.incarnation))
    }

    /// Whether this incarnation of a cell runs, so that it needs nothing more.
    pub(crate) fn runs(&self, cell: CellId, incarnation: i64) -> Result<bool, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.runs(cell, incarnation)),
            Self::Real(driver) => driver.runs(cell, incarnation),
        }
    }

    /// How an image would come to the node.
    pub(crate) fn supply(&self, digest: &Digest) -> Result<Supply, AgentError> {
        match self {
            Self::Simulated(driver) => Ok(driver.supply()),
            Self::Real(driver) => driver.supply(digest),
        }
    }

    /// Keeps an image from being evicted for as long as the hold lives; a simulated node has none to evict.
    pub(crate) fn hold_image(&self, digest: &Digest) -> Option<ImageHold> {
        match self {
            Self::Simulated(_) => None,
            Self::Real(driver) => Some(driver.hold_image(digest)),
        }
    }

    /// Evicts unused images until so many bytes can be written, if that can be enough.
    pub(crate) async fn evict_for(&self, bytes: u64) {
        let Self::Real(driver) = self else { return };
        let driver = driver.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || driver.evict_for(bytes)).await {
            tracing::warn!(%error, "unused images could not be evicted");
        }
    }

    /// Ends the process if this is the place.
    pub(crate) fn reach_point(&self, point: &'static str) {
        match self {
            Self::Simulated(driver) => driver.reach_point(point),
            Self::Real(driver) => driver.reach_point(point),
        }
    }

    /// Carries an order out, and looks what is there afterwards.
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

    /// Something old was asked for and refused.
    pub(crate) fn refused_stale(&self, order: &Order, why: &str) -> Result<(), AgentError> {
        match self {
            Self::Simulated(driver) => driver.refused_stale(order, why),
            Self::Real(_) => Ok(()),
        }
    }

    /// The report is next.
    pub(crate) fn before_report(&self, kind: TaskKind) {
        match self {
            Self::Simulated(driver) => driver.before_report(kind),
            Self::Real(driver) => driver.before_report(kind),
        }
    }

    /// Brings about what the node should have beside its places; says how far it has come.
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

    /// Where other nodes reach this one; a simulated one is reached by nobody.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Simulated(_) => None,
            Self::Real(driver) => Some(driver.address().to_string()),
        }
    }

    /// Which file system it shares with other nodes. Those that are simulated have none that could be looked into, and agree.
    pub(crate) fn shared_files(&self) -> Option<String> {
        match self {
            Self::Simulated(_) => Some("simulated".to_owned()),
            Self::Real(driver) => driver.shared_files(),
        }
    }

    /// What streams find inside its cells.
    pub(crate) fn inside(&self) -> Arc<dyn Inside> {
        match self {
            Self::Simulated(driver) => driver.inside(),
            Self::Real(driver) => Arc::new(real::Shared(driver.clone())),
        }
    }

    /// The agent ends, or begins: nothing is waited for meanwhile.
    pub(crate) fn leave(&self, left: bool) {
        match self {
            Self::Simulated(_) => {}
            Self::Real(driver) => driver.leave(left),
        }
    }

    /// How long to wait before an order, where that is simulated.
    pub(crate) fn latency(&self) -> Duration {
        match self {
            Self::Simulated(driver) => driver.faults().latency(),
            Self::Real(_) => Duration::ZERO,
        }
    }

    /// How long to wait before a heartbeat, where that is simulated.
    pub(crate) fn heartbeat_jitter(&self) -> Duration {
        match self {
            Self::Simulated(driver) => driver.faults().heartbeat_jitter(),
            Self::Real(_) => Duration::ZERO,
        }
    }

    /// Looks after what runs, until dropped.
    pub(crate) async fn supervise(&self, world: &muster_ids::World) -> std::convert::Infallible {
        match self {
            Self::Simulated(_) => std::future::pending().await,
            Self::Real(driver) => loop {
                let (driver, now) = (driver.clone(), world.now());
                if let Err(error) = tokio::task::spawn_blocking(move || driver.supervise(now)).await {
                    tracing::error!(%error, "supervision failed; it is tried again");
                }
                tokio::time::sleep(real::LOOK).await;
            },
        }
    }
}
