//! The real driver: sandboxes are control groups and disks, cells are isolated processes, networks are the kernel's.
//!
//! It composes crates with one concern each (`muster-cell`, `muster-network`, `muster-image`, `muster-disk`) and keeps
//! little state of its own: the sandboxes, and the devices that have not been wiped since their last use. Its reports come
//! from inspection, never from memory.

mod act;
mod cell;
mod device;
mod driver;
mod inside;
mod journal;
mod points;
mod reconcile;
mod room;
mod sandbox;
mod settings;
mod share;
mod survey;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use muster_cell::{CellStatus, Cells};
use muster_disk::{DiskId, Disks, SharedFiles};
use muster_ids::{CellId, Env};
use muster_image::{Digest, Images};
use muster_network::Fabric;
use muster_wire::act::Act;
use muster_wire::cell::{CellRef, DesiredState};
use muster_wire::task::{Findings, Refusal, SandboxRef, TaskKind};
use parking_lot::Mutex;

use crate::AgentError;
use crate::driver::{Order, Outcome, StaleCopy, Supply, TaskOrder, Undone};
use crate::folder::Folder;
use journal::Journal;
use sandbox::{Sandboxes, disk_id};

pub use device::{Node, nodes as devices};
use points::disk_point;
pub use points::points;
pub use settings::{Settings, key, missing_of, missing_tools, outdated_tools};
pub use survey::Cleaned;

/// The message of a cell that cannot write to the disk of its allocation.
const READ_ONLY: &str = "an error made the disk of its allocation read-only: restart the allocation";

/// The message of a cell on a node whose own disk is full, before the reason. Its allocation's disk has all its room.
const NODE_FULL: &str = "its logs are incomplete and its services cannot be restarted";

/// Driver that makes sandboxes and cells on this machine.
pub struct Driver {
    settings: Settings,
    env: Env,
    cells: Cells,
    fabric: Fabric,
    images: Images,
    disks: Disks,
    /// The file system that it shares with other nodes, or why it has none.
    shared: Done<SharedFiles>,
    sandboxes: Mutex<Sandboxes>,
    journal: Journal,
    /// Last desired state of the node beside its sandboxes: cells created later need their part of it.
    desired: Mutex<DesiredState>,
    /// Whether the agent is stopping, so that nothing is waited for.
    left: AtomicBool,
    /// Time of the last disk check, and the disks that were read-only then.
    disks_seen: Mutex<(Option<Timestamp>, BTreeSet<DiskId>)>,
    /// Time of the last comparison of free space and reserve.
    reserve_checked: Mutex<Option<Timestamp>>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Result with a definite failure as its error. A partial effect is repaired by the retry: every operation here is
/// idempotent.
type Done<T> = Result<T, String>;

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Driver {
    /// Opens the driver with the existing state of the machine, also after a crash.
    pub fn open(settings: Settings, env: &Env) -> Result<Self, AgentError> {
        let refused = |error: &dyn std::fmt::Display| AgentError::Refused(error.to_string());
        let cells = Cells::open(settings.for_cells()).map_err(|error| refused(&error))?;
        let fabric = Fabric::open(settings.for_network()).map_err(|error| refused(&error))?;
        let images = Images::open(settings.folder.join("images")).map_err(|error| refused(&error))?;
        let disks = Disks::open(settings.folder.join("disks"), settings.run.join("disks"));
        let crash = settings.crash.clone();
        let disks =
            disks.map_err(|error| refused(&error))?.reaching(move |point| crash.reach(disk_point(point)));
        let shared = share::open(&settings, env)?;
        let sandboxes = Sandboxes::open(&settings.folder)?;
        let journal = Journal::open(&settings.folder)?;
        device::make_simulated(&settings).map_err(|error| refused(&error))?;
        let driver = Self {
            settings,
            env: env.clone(),
            cells,
            fabric,
            images,
            disks,
            shared,
            sandboxes: Mutex::new(sandboxes),
            journal,
            desired: Mutex::default(),
            left: AtomicBool::new(false),
            disks_seen: Mutex::default(),
            reserve_checked: Mutex::default(),
        };
        driver.remount();
        driver.clear_aside();
        Ok(driver)
    }

    /// Returns the directories of the machine in which it works.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let given = [Some(&self.settings.folder), Some(&self.settings.run), self.settings.images.as_ref()];
        given.into_iter().chain([self.settings.shared_files.as_ref()]).flatten().cloned().collect()
    }

    /// Reports whether this incarnation of a cell is running.
    pub(crate) fn runs(&self, cell: CellId, incarnation: i64) -> Result<bool, AgentError> {
        let running = self.cells.runs(cell).map_err(|error| AgentError::Refused(error.to_string()))?;
        Ok(running == Some(incarnation))
    }

    /// Reports whether an image is unpacked here. Its integrity is verified when a cell is created from it.
    pub(crate) fn supply(&self, digest: &Digest) -> Result<Supply, AgentError> {
        let image = self.images.lookup(digest).map_err(|error| AgentError::Refused(error.to_string()))?;
        Ok(if image.is_some() { Supply::There } else { Supply::Missing })
    }

    /// Removes images that were set aside and that no running cell uses.
    fn clear_aside(&self) {
        if let Err(error) = self.images.clear_aside(|digest| self.is_image_used(digest)) {
            tracing::warn!(%error, "images that were set aside still exist");
        }
    }

    /// Lists every sandbox on the node.
    pub(crate) fn sandboxes(&self) -> Result<Vec<SandboxRef>, AgentError> {
        Ok(self.sandboxes.lock().list())
    }

    /// Lists every cell on the node.
    pub(crate) fn cells(&self) -> Result<Vec<CellRef>, AgentError> {
        self.cells.list().map_err(|error| AgentError::Refused(error.to_string()))
    }

    /// Returns the status of every started cell.
    pub(crate) fn observe(&self) -> Result<Vec<CellStatus>, AgentError> {
        let refused = |error: &dyn std::fmt::Display| AgentError::Refused(error.to_string());
        let mut found = self.cells.observe().map_err(|error| refused(&error))?;
        let read_only = self.disks.read_only().map_err(|error| refused(&error))?;
        let full = self.shortage().map(|full| format!("{NODE_FULL}: {}", full.why));
        for status in found.iter_mut().filter(|status| status.alive) {
            let is_read_only = disk_id(status.cell.allocation_id).is_ok_and(|disk| read_only.contains(&disk));
            if is_read_only && status.message.is_none() {
                status.message = Some(READ_ONLY.to_owned());
            }
            if status.message.is_none() {
                status.message.clone_from(&full);
            }
        }
        Ok(found)
    }

    /// Returns the cells with a partition limit.
    pub(crate) fn stop_self_fenced(&self) -> Result<Vec<(CellRef, u32)>, AgentError> {
        self.cells.stop_self_fenced().map_err(|error| AgentError::Refused(error.to_string()))
    }

    /// Kills every process of a cell, in any state.
    pub(crate) fn kill_cell(&self, cell: &CellRef) {
        self.cells.kill_all(cell.cell_id, cell.incarnation);
    }

    /// Executes an order, and inspects the result. The journal is flushed before and after it, so that an order interrupted
    /// by a power cut is known.
    pub(crate) fn carry_out(&self, order: &Order) -> Outcome {
        let kind = order.kind();
        self.reach(kind, "begun");
        let changes = !kind.is_inspection();
        if changes {
            if let Err(error) = self.journal.begin(order, self.env.now()) {
                return self.shortage().map_or(Err(error), |full| Ok(Err(full)));
            }
            self.reach(kind, "journalled");
        }
        let done = match order {
            Order::Task(task) => self.perform(task)?,
            Order::StaleCopy(stale_copy) => self.destroy_stale_copy(stale_copy).map_err(Undone::from),
        };
        let done = done.map_err(|undone| self.with_shortage(undone));
        self.reach(kind, "done");
        if changes {
            let why = done.as_ref().err().map(|undone| undone.why.as_str());
            // The result is known; to withhold it would have the server repeat the order.
            if let Err(error) = self.journal.end(order, why, self.env.now()) {
                tracing::warn!(%error, ?kind, "the journal lacks the end of an order");
            }
        }
        Ok(done)
    }

    /// Returns the refusal for a full disk, if it is full.
    fn shortage(&self) -> Option<Undone> {
        let full = Folder::new(&self.settings.folder).shortage()?;
        Some(Undone::because(Refusal::NodeFull, full))
    }

    /// Adds that the node's disk is full: the order may succeed when it is not.
    fn with_shortage(&self, undone: Undone) -> Undone {
        match self.shortage().filter(|_| undone.refusal.is_none()) {
            Some(full) => Undone { why: format!("{}; {}", undone.why, full.why), ..full },
            None => undone,
        }
    }

    fn perform(&self, task: &TaskOrder) -> Outcome {
        let place = |of| task.sandbox(of);
        let done = match &task.act {
            Act::Prepare(act) => self.prepare(&place(act.allocation), act),
            Act::Inspect(act) => self.inspect(&place(act.allocation), &act.devices, &act.cells),
            Act::Resize(act) => self.resize(&place(act.allocation), act),
            Act::Destroy(act) => self.destroy(&place(act.allocation), &act.devices),
            Act::Wipe(act) => self.wipe(&place(act.allocation), &act.devices),
            Act::Survey => self.survey(),
            Act::Sweep(act) => self.sweep(&act.resources),
            Act::CellCreate(act) => return Ok(self.cell_create(&place(act.allocation), act, &task.given)),
            Act::ImagePull(act) => return Ok(self.image_pull(act, &task.given)),
            Act::CellInspect(act) => self.cell_inspect(act.cell.cell_id),
            Act::CellDestroy(act) => {
                self.cell_destroy(act.cell.cell_id, act.cell.incarnation, act.keep_state)
            }
            Act::KeepLogs(act) => self.keep_logs(act.allocation.allocation_id, act.cell),
            Act::ShareRemove(act) => self.share_remove(act.network_id, task.until),
            Act::CellFiles(act) => return self.cell_files(task, act),
            Act::CellService(act) => return self.cell_service(task, act),
            Act::CellCommand(act) => return self.cell_command(task, act),
            Act::CellProbe(act) => return self.cell_probe(task, act),
            Act::Stream(_) => Err("streams are connected beside the driver".to_owned()),
        };
        Ok(done.map_err(Undone::from))
    }

    fn destroy_stale_copy(&self, stale_copy: &StaleCopy) -> Done<Findings> {
        match stale_copy {
            StaleCopy::Sandbox(place) => self.destroy(place, &[]),
            StaleCopy::Cell { cell, keep_state } => {
                self.cell_destroy(cell.cell_id, cell.incarnation, *keep_state)
            }
        }
    }

    /// Supervises running services: restarts, probes, logs.
    pub(crate) fn supervise(&self, now: Timestamp) {
        self.look_after_disks(now);
        self.look_after_images(now);
        for (cell, error) in self.cells.supervise(now) {
            tracing::warn!(%cell, %error, "a cell could not be supervised; retrying");
        }
    }

    fn reach(&self, kind: TaskKind, stage: &'static str) {
        self.settings.crash.reach_stage(kind, stage);
    }
}
