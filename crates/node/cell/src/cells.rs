//! The cells of a node.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use muster_ids::{AllocationId, CellId};
use muster_wire::cell::{CellRef, Root};
use parking_lot::Mutex;

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

/// The cells of a node. All durable state is on disk: another instance, opened on the same folders after a crash, continues
/// where this one stopped. Only one may exist at a time.
pub struct Cells {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) ranges: Mutex<Ranges>,
    pub(crate) memos: Memos,
    records: Mutex<HashMap<CellId, Arc<Record>>>,
    turns: Mutex<HashMap<CellId, Arc<Mutex<()>>>>,
    /// Destroyed cells whose trace was read, so that it is not read at each observation.
    destroyed: Mutex<HashSet<CellId>>,
    /// Lock for removing the remains of a check, which destroying its cell also does, perhaps concurrently.
    pub(crate) clearing: Mutex<()>,
    runc_root: std::path::PathBuf,
}

impl Cells {
    /// Opens the cells of a node, or reports a missing prerequisite.
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
            destroyed: Mutex::default(),
            clearing: Mutex::default(),
            runc_root: settings.run.join("runc"),
            settings,
        };
        cells.remove_partial_cells()?;
        cells.drop_witnesses()?;
        // Without their memory, which would keep a lower limit from being set.
        cells.layout.make(&cells.all_checks_group(), cells.settings.checks.of_node()?)?;
        Ok(cells)
    }

    /// Removes the remains of checks after a crash: their callers are gone, and a retry starts a new check.
    fn drop_witnesses(&self) -> CellResult<()> {
        for cell in record::known(&self.settings.folder)? {
            if let Err(error) = self.remove_checks(cell) {
                tracing::warn!(%cell, %error, "leftovers of a check stay until the cell is destroyed");
            }
        }
        Ok(())
    }

    /// Removes partially created cells with secrets after a crash: they may never be completed, and their secrets must not
    /// stay.
    fn remove_partial_cells(&self) -> CellResult<()> {
        for cell in record::known(&self.settings.folder)? {
            if let Ok(Some(record)) = self.place(cell).read_record()
                && record.phase == Phase::Making
                && !record.spec.secrets.is_empty()
                && let Err(error) = self.remove_all(cell, &Reason::Remade)
            {
                tracing::warn!(%cell, %error, "a partial cell could not be removed; the next creation retries it");
            }
        }
        Ok(())
    }

    /// Returns the running incarnation of a cell, if any. Faster than [`Cells::look`], because it inspects less.
    pub fn runs(&self, cell: CellId) -> CellResult<Option<i64>> {
        let record = self.place(cell).read_record()?;
        let runs = |record: &Record| {
            record.phase == Phase::Started && record.init.as_ref().is_some_and(Process::alive)
        };
        Ok(record.filter(runs).map(|record| record.incarnation))
    }

    /// Returns the image digest in a cell's specification; none for directories of the node.
    pub fn image(&self, cell: CellId) -> CellResult<Option<String>> {
        match &self.record(cell)?.spec.root {
            Root::Image(digest) => Ok(Some(digest.clone())),
            Root::Host(_) => Ok(None),
        }
    }

    /// Reports whether any cell has this folder as its root. An unreadable record counts as use.
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

    /// Creates the control group of an allocation, with limits shared by its cells, or updates the limits.
    pub fn group_make(&self, allocation: AllocationId, limits: Limits) -> CellResult<()> {
        self.layout.make(&self.group(allocation), limits)?;
        self.layout.make(&self.checks_group(allocation), self.settings.checks.of_allocation()?)
    }

    /// Changes the limits of an allocation.
    pub fn group_resize(&self, allocation: AllocationId, limits: Limits) -> CellResult<()> {
        self.layout.make(&self.group(allocation), limits)
    }

    /// Removes the control group of an allocation. Its cells must be destroyed.
    pub fn group_remove(&self, allocation: AllocationId) -> CellResult<()> {
        self.layout.remove(&self.checks_group(allocation))?;
        self.layout.remove(&self.group(allocation))
    }

    /// Removes the control groups that belong to no allocation, of a node without allocations.
    pub fn remove_own_groups(&self) -> CellResult<()> {
        self.layout.remove(&self.all_checks_group())
    }

    /// Returns the kernel's current values for the control group of an allocation.
    pub fn group_look(&self, allocation: AllocationId) -> GroupFindings {
        self.layout.look(&self.group(allocation))
    }

    /// Lists every cell with a record or a trace, unless it was destroyed.
    pub fn list(&self) -> CellResult<Vec<CellRef>> {
        let mut places = Vec::new();
        let mut cells = record::known(&self.settings.folder)?;
        cells.extend(self.vanished(&cells)?);
        for cell_id in cells {
            places.extend(self.trace(cell_id)?.map(|trace| CellRef {
                allocation_id: trace.allocation_id,
                cell_id,
                incarnation: trace.incarnation,
            }));
        }
        Ok(places)
    }

    /// Returns the cells whose folder disappeared although they were not destroyed: their trace has no end. `present` are those
    /// with a folder. A cell that is being created or destroyed is not among them.
    pub(crate) fn vanished(&self, present: &[CellId]) -> CellResult<Vec<CellId>> {
        let mut vanished = Vec::new();
        for cell in record::traced(&self.settings.folder)? {
            if present.binary_search(&cell).is_ok() || self.destroyed.lock().contains(&cell) {
                continue;
            }
            let turn = self.turn(cell);
            let Some(held) = turn.try_lock() else { continue };
            // The list of those present may be older than its folder.
            let place = self.place(cell);
            let trace = if place.folder.exists() {
                None
            } else {
                document::read::<Trace>(&place.trace).unwrap_or_default()
            };
            match trace {
                Some(trace) if trace.ended.is_none() => vanished.push(cell),
                Some(_) => drop(self.destroyed.lock().insert(cell)),
                None => {}
            }
            drop(held);
            self.end_turn(cell, &turn);
        }
        Ok(vanished)
    }

    /// Returns the trace of a cell in any case: an unreadable record hides neither its own cell nor the others.
    pub(crate) fn trace(&self, cell: CellId) -> CellResult<Option<Trace>> {
        let place = self.place(cell);
        match place.read_record() {
            Ok(Some(record)) => Ok(Some(record.trace())),
            _ => document::read::<Trace>(&place.trace),
        }
    }

    /// Returns the cells with a partition limit, and the limit in seconds.
    pub fn stop_self_fenced(&self) -> CellResult<Vec<(CellRef, u32)>> {
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

    /// Returns the control group shared by the checks of an allocation.
    pub(crate) fn checks_group(&self, allocation: AllocationId) -> String {
        format!("{}/{allocation}", self.all_checks_group())
    }

    /// Returns the control group shared by all checks on the node.
    fn all_checks_group(&self) -> String {
        format!("{}/checks", self.settings.cgroup_root)
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

    /// Returns the cached record of a cell.
    pub(crate) fn record(&self, cell: CellId) -> CellResult<Arc<Record>> {
        // Locked during the read, so that a concurrent write is not hidden by a stale record.
        let mut records = self.records.lock();
        if let Some(record) = records.get(&cell) {
            return Ok(Arc::clone(record));
        }
        let record = Arc::new(self.place(cell).need_record(cell)?);
        records.insert(cell, Arc::clone(&record));
        Ok(record)
    }

    /// Saves the record of a cell, and its trace for finding remains.
    pub(crate) fn save(&self, record: &Record) -> CellResult<()> {
        let place = self.place(record.cell_id);
        document::write(&place.trace, &record.trace())?;
        self.destroyed.lock().remove(&record.cell_id);
        // Locked during the write, so that readers wait. If the write fails, the file on disk counts.
        let mut records = self.records.lock();
        records.remove(&record.cell_id);
        place.write_record(record)
    }

    pub(crate) fn forget(&self, cell: CellId) {
        self.records.lock().remove(&cell);
        self.memos.forget(cell);
    }

    /// Drops the lock of a removed cell, unless another thread waits for it.
    pub(crate) fn end_turn(&self, cell: CellId, turn: &Arc<Mutex<()>>) {
        let mut turns = self.turns.lock();
        if Arc::strong_count(turn) <= 2 {
            turns.remove(&cell);
        }
    }

    /// Returns the lock that serializes changes to a cell.
    pub(crate) fn turn(&self, cell: CellId) -> Arc<Mutex<()>> {
        Arc::clone(self.turns.lock().entry(cell).or_default())
    }

    /// Returns the monitor of `run` of a service.
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
