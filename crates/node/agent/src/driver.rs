//! The interface between an agent and the driver that provisions its sandboxes and cells.
//!
//! There are two drivers: [`real::Driver`](crate::real::Driver), and the simulated one in `muster-agent-sim`, which this crate
//! does not know. Public is therefore what a driver in another crate names: the trait, [`Order`] and [`Outcome`], the types of
//! other crates in its signatures, and beside this module `stream::Inside`, `Folder` for its state, and `AgentError`.
//! Everything else of an agent is the same for both drivers, and stays private.
//!
//! A driver with slow functions runs them on a blocking thread by itself: the simulated one would exhaust the threads of a
//! process with a thousand nodes.

use std::convert::Infallible;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, Env, ProjectId, TaskId, TenantId};
use muster_wire::act::{Act, OwnedAllocation};
use muster_wire::cell::{CellRef, DesiredState};
use muster_wire::task::{Findings, Refusal, SandboxRef, TaskKind};

pub use muster_cell::CellStatus;
pub use muster_image::{Digest, ImageHold, ImageReservation};

use crate::AgentError;
pub use crate::provide::Given;
use crate::stream::Inside;

/// An order to a driver.
#[derive(Debug)]
pub enum Order {
    /// A task of the server.
    Task(Box<TaskOrder>),
    /// A stale copy to destroy.
    StaleCopy(StaleCopy),
}

impl Order {
    /// Returns the kind of the task, or of one with the same effect.
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Task(task) => task.act.kind(),
            Self::StaleCopy(StaleCopy::Sandbox(_)) => TaskKind::Destroy,
            Self::StaleCopy(StaleCopy::Cell { .. }) => TaskKind::CellDestroy,
        }
    }

    /// Returns the sandbox concerned, or that of the cell; none for orders about the whole node.
    pub fn sandbox(&self) -> Option<SandboxRef> {
        match self {
            Self::Task(task) => task.act.allocation().map(|owned| task.sandbox(owned)),
            Self::StaleCopy(StaleCopy::Sandbox(place)) => Some(place.clone()),
            // Only the id of its allocation is known, and a stale copy must not raise the allocation's fence.
            Self::StaleCopy(StaleCopy::Cell { cell, .. }) => {
                Some(SandboxRef { allocation_id: cell.allocation_id, incarnation: 0 })
            }
        }
    }

    /// Returns the cell concerned.
    pub fn cell(&self) -> Option<CellRef> {
        match self {
            Self::Task(task) => {
                let (owned, cell) = task.act.allocation().zip(task.act.cell())?;
                let (cell_id, incarnation) = (cell.cell_id, cell.incarnation);
                Some(CellRef { allocation_id: owned.allocation_id, cell_id, incarnation })
            }
            Self::StaleCopy(StaleCopy::Sandbox(_)) => None,
            Self::StaleCopy(StaleCopy::Cell { cell, .. }) => Some(cell.clone()),
        }
    }

    /// Returns the task, if the order is one.
    pub fn task_id(&self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(task.id),
            Self::StaleCopy(_) => None,
        }
    }
}

/// A stale copy.
#[derive(Debug, Clone)]
pub enum StaleCopy {
    /// A sandbox, with everything in it.
    Sandbox(SandboxRef),
    /// A cell in a current sandbox.
    Cell {
        /// The cell.
        cell: CellRef,
        /// Whether its state directories are kept: not for a stale copy named by the platform, but for a self-fenced cell.
        keep_state: bool,
    },
}

/// A task for a driver.
#[derive(Debug)]
pub struct TaskOrder {
    /// The task.
    pub id: TaskId,
    /// Its act.
    pub act: Act,
    /// Incarnation of the sandbox.
    pub incarnation: i64,
    /// Expiry.
    pub until: Timestamp,
    /// Content supplied by the server beside the order, or the reason why it could not be fetched. In that case nothing may
    /// be left of the cell.
    pub given: Result<Given, Undone>,
}

impl TaskOrder {
    /// Returns the sandbox of an allocation of the act.
    pub fn sandbox(&self, of: OwnedAllocation) -> SandboxRef {
        SandboxRef { allocation_id: of.allocation_id, incarnation: self.incarnation }
    }
}

/// A definite failure: the order was not done. Carries the reason, and its code if the protocol has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// Reason.
    pub why: String,
    /// Its code in the protocol.
    pub refusal: Option<Refusal>,
}

impl From<String> for Undone {
    fn from(why: String) -> Self {
        Self { why, refusal: None }
    }
}

impl Undone {
    /// Returns a failure with a code of the protocol.
    pub fn because(refusal: Refusal, why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string(), refusal: Some(refusal) }
    }
}

/// Outcome of an order. The inner error is a definite failure, the outer error an unknown result.
pub type Outcome = Result<Result<Findings, Undone>, AgentError>;

/// Availability of an image on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// Unpacked on this node.
    There,
    /// Must be pulled.
    Missing,
    /// Absent: a simulated node requests what it would need, and simulates the rest.
    Simulated,
}

/// The project for which an image is unpacked.
#[derive(Debug, Clone, Copy)]
pub struct ImageOwner {
    pub(crate) project: ProjectId,
    pub(crate) tenant: TenantId,
    /// Whether its allocation has the node to itself.
    pub(crate) exclusive: bool,
}

impl ImageOwner {
    pub(crate) fn of(allocation: OwnedAllocation, exclusive: bool) -> Self {
        Self { project: allocation.project_id, tenant: allocation.tenant_id, exclusive }
    }
}

/// The driver that provisions sandboxes and cells. The provided functions suit a driver without processes, images, networks
/// and delays.
pub trait Driver: Debug + Send + Sync {
    /// Lists every sandbox on the node, found by inspection.
    fn sandboxes(&self) -> Result<Vec<SandboxRef>, AgentError>;

    /// Returns the directories of the machine in which it works.
    fn folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Lists every cell on the node, found by inspection.
    fn cells(&self) -> Result<Vec<CellRef>, AgentError>;

    /// Returns the status of every started cell.
    fn observe(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<CellStatus>, AgentError>>;

    /// Returns the cells with a partition limit, and the limit in seconds.
    fn stop_self_fenced(&self) -> Result<Vec<(CellRef, u32)>, AgentError>;

    /// Kills every process of a cell at once. Destroying the cell removes its remains.
    fn kill_cell(&self, _cell: &CellRef) {}

    /// Returns the boot id of the machine.
    fn boot_id(&self) -> String;

    /// Reports whether this incarnation of a cell is running, so that creating it needs no further content.
    fn runs(&self, cell: CellId, incarnation: i64) -> Result<bool, AgentError>;

    /// Returns the availability of an image on the node.
    fn supply(&self, digest: &Digest) -> Result<Supply, AgentError>;

    /// Protects an image from eviction for as long as the hold lives.
    fn hold_image(&self, _digest: &Digest) -> Option<ImageHold> {
        None
    }

    /// Counts an image against the budget of its project before it is fetched.
    fn reserve_image(
        self: Arc<Self>,
        _digest: Digest,
        _bytes: u64,
        _owner: ImageOwner,
    ) -> BoxFuture<'static, Result<Option<ImageReservation>, Undone>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Evicts unused images until `bytes` can be written, if that can free enough.
    fn evict_for(self: Arc<Self>, _bytes: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Marks a crash point, where a test may end the process.
    fn reach_point(&self, _point: &'static str) {}

    /// Executes an order, and inspects the result.
    fn carry_out(self: Arc<Self>, order: Order) -> BoxFuture<'static, Outcome>;

    /// Records the refusal of a stale order.
    fn refused_stale(&self, _order: &Order, _why: &str) -> Result<(), AgentError> {
        Ok(())
    }

    /// Marks the point before a report.
    fn before_report(&self, _kind: TaskKind) {}

    /// Reconciles the node with its desired state beside its sandboxes, and returns the revision reached.
    fn reconcile(self: Arc<Self>, desired: DesiredState) -> BoxFuture<'static, Result<i64, AgentError>> {
        Box::pin(std::future::ready(Ok(desired.revision)))
    }

    /// Returns the address at which other nodes reach this one.
    fn address(&self) -> Option<String> {
        None
    }

    /// Returns the identity of the file system shared with other nodes.
    fn shared_files(&self) -> Option<String>;

    /// Returns the number of allocations whose checks may run at once.
    fn checked_at_once(&self) -> usize {
        usize::MAX
    }

    /// Returns the access that streams have to its cells.
    fn inside(self: Arc<Self>) -> Arc<dyn Inside>;

    /// Marks the agent as stopping or starting. A stopping agent waits for nothing.
    fn leave(&self, _left: bool) {}

    /// Returns the simulated delay before an order.
    fn latency(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the simulated delay before a heartbeat.
    fn heartbeat_jitter(&self) -> Duration {
        Duration::ZERO
    }

    /// Supervises services until dropped.
    fn supervise(self: Arc<Self>, _env: Env) -> BoxFuture<'static, Infallible> {
        Box::pin(std::future::pending())
    }
}

impl dyn Driver {
    /// Returns the incarnation of an allocation's sandbox on the node.
    pub(crate) fn incarnation(&self, allocation: AllocationId) -> Result<Option<i64>, AgentError> {
        let sandboxes = self.sandboxes()?;
        Ok(sandboxes.iter().find(|place| place.allocation_id == allocation).map(|place| place.incarnation))
    }

    /// Returns the incarnation of a cell on the node.
    pub(crate) fn cell_incarnation(&self, cell: CellId) -> Result<Option<i64>, AgentError> {
        let cells = self.cells()?;
        Ok(cells.iter().find(|place| place.cell_id == cell).map(|place| place.incarnation))
    }
}
