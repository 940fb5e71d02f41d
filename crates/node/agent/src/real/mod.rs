//! The real driver: places are control groups and disks, cells are isolated processes, networks are the kernel's.
//!
//! It composes the crates that each know one thing (`muster-cell`, `muster-network`, `muster-image`, `muster-disk`) and
//! keeps little of its own: which places there are, and which devices have not been wiped since somebody had them. What it
//! reports it has looked up, never remembered.

mod act;
mod cell;
mod device;
mod follow;
mod inside;
mod journal;
mod place;
mod room;
mod settings;
mod share;
mod survey;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use muster_cell::{CellStatus, Cells};
use muster_disk::{DiskId, Disks, SharedFiles};
use muster_ids::{CellId, World};
use muster_image::{Digest, Images};
use muster_network::Fabric;
use muster_wire::cell::{CellPlace, Wanted};
use muster_wire::task::{Findings, Place, TaskKind};

use crate::AgentError;
use crate::driver::{Order, Outcome, Supply, Undone};
pub(crate) use inside::Shared;
use journal::Journal;
use place::{Places, disk_id};

pub use device::{Node, nodes as devices};
use settings::disk_point;
pub use settings::{DISK_POINTS, Settings, key, missing_of, missing_tools, outdated_tools};
pub use survey::Cleaned;

/// How often what runs is looked after.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// The message of a cell that cannot write to the disk of its allocation.
const READ_ONLY: &str = "an error made the disk of its allocation read-only: restart the allocation";

/// What makes places and cells on this machine.
pub struct Driver {
    settings: Settings,
    world: World,
    cells: Cells,
    fabric: Fabric,
    images: Images,
    disks: Disks,
    /// The file system that it shares with other nodes, or why it has none.
    shared: Done<SharedFiles>,
    places: Mutex<Places>,
    journal: Journal,
    /// What the node should have beside its places, as it was told last: what is made later needs its part of it.
    wanted: Mutex<Wanted>,
    /// Whether its agent ends, and waits for nothing any more.
    left: AtomicBool,
    /// When disks were last looked after, and which were read-only then.
    disks_seen: Mutex<(Option<Timestamp>, BTreeSet<DiskId>)>,
    /// When the free space was last compared with the reserve.
    reserve_checked: Mutex<Option<Timestamp>>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// "Surely not done", as a sentence. What may have been done half is repeated by whoever asks again: everything here ends in
/// the same state however often it is begun.
type Done<T> = Result<T, String>;

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Driver {
    /// Finds what is on the machine, also after a crash.
    pub fn open(settings: Settings, world: &World) -> Result<Self, AgentError> {
        let refused = |error: &dyn std::fmt::Display| AgentError::Refused(error.to_string());
        let cells = Cells::open(settings.for_cells()).map_err(|error| refused(&error))?;
        let fabric = Fabric::open(settings.for_network()).map_err(|error| refused(&error))?;
        let images = Images::open(settings.folder.join("images")).map_err(|error| refused(&error))?;
        let disks = Disks::open(settings.folder.join("disks"), settings.run.join("disks"));
        let kill = settings.kill.clone();
        let disks = disks
            .map_err(|error| refused(&error))?
            .reaching(move |point| kill.reach_point(disk_point(point)));
        let shared = share::open(&settings, world)?;
        let places = Places::open(&settings.folder)?;
        let journal = Journal::open(&settings.folder)?;
        device::make_pretended(&settings).map_err(|error| refused(&error))?;
        let driver = Self {
            settings,
            world: world.clone(),
            cells,
            fabric,
            images,
            disks,
            shared,
            places: Mutex::new(places),
            journal,
            wanted: Mutex::default(),
            left: AtomicBool::new(false),
            disks_seen: Mutex::default(),
            reserve_checked: Mutex::default(),
        };
        driver.remount();
        driver.clear_aside();
        Ok(driver)
    }

    /// Whether this incarnation of a cell runs.
    pub(crate) fn runs(&self, cell: CellId, incarnation: i64) -> Result<bool, AgentError> {
        let running = self.cells.runs(cell).map_err(|error| AgentError::Refused(error.to_string()))?;
        Ok(running == Some(incarnation))
    }

    /// Whether an image is unpacked here. Whether it is as it was is seen when a cell is made from it.
    pub(crate) fn supply(&self, digest: &Digest) -> Result<Supply, AgentError> {
        let image = self.images.lookup(digest).map_err(|error| AgentError::Refused(error.to_string()))?;
        Ok(if image.is_some() { Supply::There } else { Supply::Missing })
    }

    pub(crate) fn reach_point(&self, point: &'static str) {
        self.settings.kill.reach_point(point);
    }

    /// Removes images that were set aside and from which no cell runs any more.
    fn clear_aside(&self) {
        if let Err(error) = self.images.clear_aside(|digest| self.is_image_used(digest)) {
            tracing::warn!(%error, "images that were set aside are still there");
        }
    }

    /// The address under which other nodes reach this one.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.settings.address
    }

    /// Every place on the node.
    pub(crate) fn places(&self) -> Result<Vec<Place>, AgentError> {
        Ok(self.places.lock().expect("no holder of this lock can panic").list())
    }

    /// Every cell on the node.
    pub(crate) fn cells(&self) -> Result<Vec<CellPlace>, AgentError> {
        self.cells.list().map_err(|error| AgentError::Refused(error.to_string()))
    }

    /// The status of every cell that was started.
    pub(crate) fn observe(&self) -> Result<Vec<CellStatus>, AgentError> {
        let refused = |error: &dyn std::fmt::Display| AgentError::Refused(error.to_string());
        let mut found = self.cells.observe().map_err(|error| refused(&error))?;
        let read_only = self.disks.read_only().map_err(|error| refused(&error))?;
        for status in found.iter_mut().filter(|status| status.alive) {
            let is_read_only = disk_id(status.cell.allocation_id).is_ok_and(|disk| read_only.contains(&disk));
            if is_read_only && status.message.is_none() {
                status.message = Some(READ_ONLY.to_owned());
            }
        }
        Ok(found)
    }

    /// The cells that must not go on without the platform.
    pub(crate) fn stop_alone(&self) -> Result<Vec<(CellPlace, u32)>, AgentError> {
        self.cells.stop_alone().map_err(|error| AgentError::Refused(error.to_string()))
    }

    /// Kills everything in a cell, in whatever state it is.
    pub(crate) fn kill_cell(&self, cell: &CellPlace) {
        self.cells.kill_all(cell.cell_id, cell.incarnation);
    }

    /// Carries an order out, and looks what is there afterwards. It is in the journal, on the disk, before anything is done
    /// and after it was done, so that what a power cut interrupted is known.
    pub(crate) fn carry_out(&self, order: &Order) -> Outcome {
        self.reach(order.kind, "begun");
        let looks = [TaskKind::Inspect, TaskKind::CellInspect, TaskKind::Survey, TaskKind::CellProbe];
        let changes = !looks.contains(&order.kind);
        if changes {
            self.journal.begin(order, self.world.now())?;
            self.reach(order.kind, "journalled");
        }
        let done = if order.details.act.is_some() { self.act(order)? } else { self.perform(order) };
        self.reach(order.kind, "done");
        if changes {
            let why = done.as_ref().err().map(|undone| undone.why.as_str());
            self.journal.end(order, why, self.world.now())?;
        }
        Ok(done)
    }

    fn perform(&self, order: &Order) -> Result<Findings, Undone> {
        let place = || order.place.as_ref().ok_or_else(|| format!("{:?} needs an allocation", order.kind));
        let cell = || order.details.cell.as_ref().ok_or_else(|| format!("{:?} needs a cell", order.kind));
        let done = match order.kind {
            TaskKind::Prepare => self.prepare(place()?, &order.details),
            TaskKind::Inspect => self.inspect(place()?, &order.details),
            TaskKind::Resize => self.resize(place()?, &order.details),
            TaskKind::Destroy => self.destroy(place()?, &order.details),
            TaskKind::Wipe => self.wipe(place()?, &order.details),
            TaskKind::Survey => self.survey(),
            TaskKind::Sweep => self.sweep(&order.details.things),
            TaskKind::CellCreate => return self.cell_create(place()?, cell()?, &order.given),
            TaskKind::ImagePull => return self.image_pull(cell()?, &order.given),
            TaskKind::CellInspect => self.cell_inspect(cell()?),
            TaskKind::CellDestroy => self.cell_destroy(cell()?),
            TaskKind::KeepLogs => self.keep_logs(place()?, order.details.cell.as_ref()),
            TaskKind::ShareRemove => self.share_remove(&order.details),
            TaskKind::CellFiles | TaskKind::CellService | TaskKind::CellCommand | TaskKind::CellProbe => {
                Err("it is not said what to do in which cell".to_owned())
            }
            TaskKind::Stream => Err("a stream is no order".to_owned()),
        };
        done.map_err(Undone::from)
    }

    /// Its agent ends, or begins: what takes long is not waited for meanwhile, and found again by whoever asks next.
    pub(crate) fn leave(&self, left: bool) {
        self.left.store(left, Ordering::Relaxed);
    }

    /// The report is next.
    pub(crate) fn before_report(&self, kind: TaskKind) {
        self.reach(kind, "reporting");
    }

    /// Looks after what runs: restarts, probes, logs.
    pub(crate) fn supervise(&self, now: Timestamp) {
        self.look_after_disks(now);
        self.look_after_images(now);
        for (cell, error) in self.cells.supervise(now) {
            tracing::warn!(%cell, %error, "a cell could not be looked after; it is tried again");
        }
    }

    fn reach(&self, kind: TaskKind, stage: &'static str) {
        self.settings.kill.reach_named(kind, stage);
    }
}
