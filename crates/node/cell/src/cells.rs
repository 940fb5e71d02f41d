//! The cells of a node.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_ids::{AllocationId, CellId};
use muster_wire::cell::{CellPlace, Root};

use crate::cgroup::{GroupFindings, Layout, Limits};
use crate::destroy::Reason;
use crate::document;
use crate::error::CellResult;
use crate::monitor::Monitor;
use crate::process::Process;
use crate::range::Ranges;
use crate::record::{self, Phase, Place, Record, RootSource, Trace};
use crate::settings::Settings;
use crate::supervise::Memos;
use crate::witness;

/// The cells of a node. Everything durable about them is on disk: another one of these, opened on the same folders after a
/// crash, goes on where this one stopped. There must be one at a time.
pub struct Cells {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) ranges: Mutex<Ranges>,
    pub(crate) memos: Memos,
    records: Mutex<HashMap<CellId, Arc<Record>>>,
    turns: Mutex<HashMap<CellId, Arc<Mutex<()>>>>,
    /// Who removes what is left of a check holds this: who destroys its cell does so too, and may come at the same time.
    pub(crate) clearing: Mutex<()>,
    runc_root: std::path::PathBuf,
}

impl Cells {
    /// Opens the cells of a node, and says what is missing for them.
    pub fn open(settings: Settings) -> CellResult<Self> {
        settings.check()?;
        document::folder(&settings.folder, 0o700)?;
        document::folder(&settings.folder.join("cells"), 0o700)?;
        document::folder(&settings.folder.join("trace"), 0o700)?;
        document::folder(&settings.run, 0o711)?;
        document::folder(&settings.run.join("cells"), 0o711)?;
        let ranges = Ranges::new(&settings.folder, settings.id_base);
        let cells = Self {
            layout: Layout::detect()?,
            ranges: Mutex::new(ranges),
            memos: Memos::default(),
            records: Mutex::default(),
            turns: Mutex::default(),
            clearing: Mutex::default(),
            runc_root: settings.run.join("runc"),
            settings,
        };
        cells.drop_half_told()?;
        cells.drop_witnesses()?;
        Ok(cells)
    }

    /// Removes what a crash left of checks: nobody waits for their verdict any more, and who wants one asks anew.
    fn drop_witnesses(&self) -> CellResult<()> {
        for cell in record::known(&self.settings.folder)? {
            if let Err(error) = self.clear_witnesses(cell) {
                tracing::warn!(%cell, %error, "what is left of a check stays until the cell is destroyed");
            }
        }
        Ok(())
    }

    /// Removes what a crash left half made of cells with secrets: nobody may ever come who makes them to the end, and what they
    /// were told belongs to nobody then.
    fn drop_half_told(&self) -> CellResult<()> {
        for cell in record::known(&self.settings.folder)? {
            if let Ok(Some(record)) = self.place(cell).read_record()
                && record.phase == Phase::Making
                && !record.spec.secrets.is_empty()
                && let Err(error) = self.remove_all(cell, &Reason::Remade)
            {
                tracing::warn!(%cell, %error, "a half-made cell could not be removed; whoever makes it again tries it again");
            }
        }
        Ok(())
    }

    /// Which incarnation of a cell runs, if one does. It looks at less than [`Cells::look`] does, and is quick.
    pub fn runs(&self, cell: CellId) -> CellResult<Option<i64>> {
        let record = self.place(cell).read_record()?;
        let runs = |record: &Record| {
            record.phase == Phase::Started && record.init.as_ref().is_some_and(Process::alive)
        };
        Ok(record.filter(runs).map(|record| record.incarnation))
    }

    /// The digest of the image that a cell was made from, as its spec has it; none for one of directories of the node.
    pub fn image(&self, cell: CellId) -> CellResult<Option<String>> {
        match &self.record(cell)?.spec.root {
            Root::Image(digest) => Ok(Some(digest.clone())),
            Root::Host(_) => Ok(None),
        }
    }

    /// Whether any cell here has this folder for its root. One whose record cannot be read may have any.
    pub fn uses_image(&self, folder: &Path) -> CellResult<bool> {
        for cell in record::known(&self.settings.folder)? {
            match self.place(cell).read_record() {
                Ok(Some(record)) => {
                    if matches!(&record.root, RootSource::Image { folder: used, .. } if used == folder) {
                        return Ok(true);
                    }
                }
                Ok(None) => {}
                Err(_) => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Makes the control group of an allocation, in which all its cells share these limits; or gives them to it.
    pub fn group_make(&self, allocation: AllocationId, limits: Limits) -> CellResult<()> {
        self.layout.make(&self.group(allocation), limits)?;
        self.layout.make(&self.checks_group(allocation), witness::limits()?)
    }

    /// Changes the limits of an allocation.
    pub fn group_resize(&self, allocation: AllocationId, limits: Limits) -> CellResult<()> {
        self.layout.make(&self.group(allocation), limits)
    }

    /// Removes the control group of an allocation. Its cells must be gone.
    pub fn group_remove(&self, allocation: AllocationId) -> CellResult<()> {
        self.layout.remove(&self.checks_group(allocation))?;
        self.layout.remove(&self.group(allocation))
    }

    /// What the kernel says of the control group of an allocation now.
    pub fn group_look(&self, allocation: AllocationId) -> GroupFindings {
        self.layout.look(&self.group(allocation))
    }

    /// Every cell of which anything is remembered here.
    pub fn list(&self) -> CellResult<Vec<CellPlace>> {
        let mut places = Vec::new();
        for cell_id in record::known(&self.settings.folder)? {
            places.extend(self.trace(cell_id)?.map(|trace| CellPlace {
                allocation_id: trace.allocation_id,
                cell_id,
                incarnation: trace.incarnation,
            }));
        }
        Ok(places)
    }

    /// What is remembered of a cell in any case: a record that cannot be read hides neither its own cell nor the others.
    pub(crate) fn trace(&self, cell: CellId) -> CellResult<Option<Trace>> {
        let place = self.place(cell);
        match place.read_record() {
            Ok(Some(record)) => Ok(Some(record.trace())),
            _ => document::read::<Trace>(&place.trace),
        }
    }

    /// The cells that must not go on without the platform, each with how many seconds it may.
    pub fn stop_alone(&self) -> CellResult<Vec<(CellPlace, u32)>> {
        let mut cells = Vec::new();
        for place in self.list()? {
            let record = self.record(place.cell_id);
            cells.extend(
                record.ok().and_then(|record| record.spec.stop_after_partition).map(|limit| (place, limit)),
            );
        }
        Ok(cells)
    }

    pub(crate) fn group(&self, allocation: AllocationId) -> String {
        format!("{}/{allocation}", self.settings.cgroup_root)
    }

    /// The group that the checks beside all cells of an allocation share.
    pub(crate) fn checks_group(&self, allocation: AllocationId) -> String {
        format!("{}/checks.{allocation}", self.settings.cgroup_root)
    }

    pub(crate) fn cell_group(&self, record: &Record) -> String {
        format!("{}/{}", self.group(record.allocation_id), record.cell_id)
    }

    pub(crate) fn place(&self, cell: CellId) -> Place {
        Place::of(&self.settings, cell)
    }

    pub(crate) fn reach(&self, point: &'static str) {
        (self.settings.reach)(point);
    }

    /// What is remembered of a cell, without reading it again.
    pub(crate) fn record(&self, cell: CellId) -> CellResult<Arc<Record>> {
        // Held while it is read, so that what is written meanwhile is not hidden behind what was read before.
        let mut records = lock(&self.records);
        if let Some(record) = records.get(&cell) {
            return Ok(Arc::clone(record));
        }
        let record = Arc::new(self.place(cell).need_record(cell)?);
        records.insert(cell, Arc::clone(&record));
        Ok(record)
    }

    /// Writes down what is known of a cell, and with it where to look for what it may leave.
    pub(crate) fn save(&self, record: &Record) -> CellResult<()> {
        let place = self.place(record.cell_id);
        document::write(&place.trace, &record.trace())?;
        // Nobody reads it while it is written. If the write fails, what is on disk counts.
        let mut records = lock(&self.records);
        records.remove(&record.cell_id);
        place.write_record(record)
    }

    pub(crate) fn forget(&self, cell: CellId) {
        lock(&self.records).remove(&cell);
        self.memos.forget(cell);
    }

    /// Lets go of the turn of a cell that is gone, unless somebody waits for it.
    pub(crate) fn end_turn(&self, cell: CellId, turn: &Arc<Mutex<()>>) {
        let mut turns = lock(&self.turns);
        if Arc::strong_count(turn) <= 2 {
            turns.remove(&cell);
        }
    }

    /// Who changes a cell holds this, one at a time.
    pub(crate) fn turn(&self, cell: CellId) -> Arc<Mutex<()>> {
        Arc::clone(lock(&self.turns).entry(cell).or_default())
    }

    /// The monitored process of `run` of a service.
    pub(crate) fn service_monitor(&self, record: &Record, service: &str, run: u32) -> Monitor<'_> {
        let folder = self.place(record.cell_id).service(service);
        self.monitor(record.cell_id, folder.join(format!("run-{run}")), folder.join("log"))
    }

    pub(crate) fn monitor(
        &self,
        cell: CellId,
        folder: std::path::PathBuf,
        log: std::path::PathBuf,
    ) -> Monitor<'_> {
        Monitor { cell, folder, log, tools: &self.settings.tools, runc_root: self.runc_root() }
    }

    pub(crate) fn runc_root(&self) -> &std::path::Path {
        &self.runc_root
    }
}

/// What these locks guard is whole at every moment, so a panic of another holder spoils nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
