//! Destroys a cell: from any state, after any crash, and repeatedly.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use muster_ids::CellId;
use rustix::process::Signal;

use crate::cells::Cells;
use crate::document;
use crate::error::{CellError, CellResult};
use crate::monitor;
use crate::process::{self, Process};
use crate::record::{self, Phase, Place, Record, Trace};
use crate::root;
use crate::service::Run;

/// Maximum traces of removed cells, kept to find their remains.
const TRACES: usize = 2_000;

/// Options for destroying a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestroyOptions {
    /// Whether its state directories are kept for its next incarnation.
    pub keep_state: bool,
}

/// Reason for removing a cell.
pub(crate) enum Reason {
    Asked(DestroyOptions),
    /// It could not be created.
    Failed,
    /// A new incarnation replaces it.
    Remade,
}

impl Cells {
    /// Destroys a cell: stops its services in order, then removes everything of it. Idempotent; a partial cell, after a
    /// crash for example, is removed too.
    pub fn destroy(&self, cell: CellId, options: DestroyOptions) -> CellResult<()> {
        let turn = self.turn(cell);
        let _turn = turn.lock();
        self.remove_all(cell, &Reason::Asked(options))?;
        self.end_turn(cell, &turn);
        Ok(())
    }

    /// Kills every process of this incarnation of a cell without waiting, neither for its lock nor for its services. Its
    /// remains stay until it is destroyed.
    pub fn kill_all(&self, cell: CellId, incarnation: i64) {
        let Ok(record) = self.record(cell) else { return };
        // The first process takes all the others with it; the kernel sees to that.
        if let Some(init) = record.init.as_ref().filter(|_| record.incarnation == incarnation) {
            init.signal(Signal::KILL);
        }
    }

    /// Removes everything of a cell. The caller holds the cell's lock.
    pub(crate) fn remove_all(&self, cell: CellId, reason: &Reason) -> CellResult<()> {
        let place = self.place(cell);
        let mut record = match place.read_record() {
            Ok(record) => record,
            // A damaged record must not keep a cell alive: everything that is found without it is removed.
            Err(error) => {
                tracing::warn!(%cell, %error, "a cell is removed without its record");
                None
            }
        };
        if let Some(record) = &mut record {
            record.phase = Phase::Destroying;
            record.ended = record.ended.or_else(process::ticks);
            self.save(record)?;
            self.reach("cell_destroy:recorded");
            if let Reason::Asked(_) = reason {
                self.stop_services(record);
            }
        }
        self.reach("cell_destroy:services-stopped");

        let held = record.as_ref().map(hold_namespaces).unwrap_or_default();
        self.delete_container(cell, &place, record.as_ref())?;
        self.remove_checks(cell)?;
        self.reach("cell_destroy:container-deleted");
        self.end_monitors(&place)?;
        self.reach("cell_destroy:monitors-gone");
        if let Some(record) = record.as_mut().filter(|_| !held.is_empty()) {
            forget_namespaces(record);
            self.save(record)?;
        }
        drop(held);
        for folder in self.layout.find(&self.settings.cgroup_root, &cell.to_string()) {
            self.layout.remove_folder(&folder)?;
        }
        self.reach("cell_destroy:groups-removed");

        root::unmount(&place.run)?;
        self.reach("cell_destroy:unmounted");
        let mut trace = document::read::<Trace>(&place.trace).unwrap_or_default();
        if let Some(trace) = trace.as_mut().filter(|trace| record.is_none() && trace.ended.is_none()) {
            // Otherwise it would count as a cell whose folder disappeared.
            trace.ended = process::ticks();
            document::write(&place.trace, trace)?;
        }
        if let Some(layer) = record.as_ref().map(Record::layer).or(trace.map(|trace| trace.layer)) {
            document::remove_folder(&layer)?;
            // Fails if other cells use the folder; an empty leftover does no harm.
            let _ = layer.parent().map(fs::remove_dir);
        }
        if let (Some(record), Reason::Asked(DestroyOptions { keep_state: false })) = (&record, reason) {
            document::remove_folder(&record.states())?;
            let _ = fs::remove_dir(record.storage.join("state"));
        }
        document::remove_folder(&place.run)?;
        document::remove_folder(&self.runc_root().join(cell.to_string()))?;
        self.reach("cell_destroy:folders-removed");
        self.ranges.lock().free(cell)?;
        self.reach("cell_destroy:range-freed");
        // The record is removed last and atomically: after a crash before that, all of this is repeated.
        document::remove(&place.record_file())?;
        document::remove_folder(&place.folder)?;
        self.forget(cell);
        self.prune_traces();
        self.reach("cell_destroy:forgotten");
        Ok(())
    }

    /// Stops the services in reverse dependency order, and waits for each within its limit.
    fn stop_services(&self, record: &Record) {
        if !record.init.as_ref().is_some_and(Process::alive) {
            return;
        }
        let namespace = record.namespaces.get("pid").copied();
        let process = |name: &str| {
            let run = Run::read(&self.place(record.cell_id), name).ok().flatten()?;
            self.service_monitor(record, name, run.number).process(namespace)
        };
        let mut running: BTreeSet<&str> = record
            .spec
            .services
            .iter()
            .map(|service| service.name.as_str())
            .filter(|name| process(name).is_some())
            .collect();
        let mut asked: Vec<(&str, Process, Instant)> = Vec::new();
        while !running.is_empty() {
            for service in &record.spec.services {
                let name = service.name.as_str();
                let needed = record.spec.services.iter().any(|other| {
                    running.contains(other.name.as_str()) && other.after.iter().any(|after| after == name)
                });
                if needed || !running.contains(name) || asked.iter().any(|(other, ..)| *other == name) {
                    continue;
                }
                if let Some(process) = process(name) {
                    process.signal(Signal::TERM);
                    let until = Instant::now() + Duration::from_secs(u64::from(service.stop_seconds));
                    asked.push((name, process, until));
                } else {
                    running.remove(name);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
            asked.retain(|(name, process, until)| {
                if process.alive() && Instant::now() >= *until {
                    process.signal(Signal::KILL);
                }
                let stays = process.alive();
                if !stays {
                    running.remove(name);
                }
                stays
            });
        }
    }

    fn delete_container(&self, cell: CellId, place: &Place, record: Option<&Record>) -> CellResult<()> {
        let name = cell.to_string();
        let state = self.runc_root().join(&name);
        // The first process takes all the others with it; the kernel sees to that.
        if let Some(init) = record.and_then(|record| record.init.as_ref()) {
            init.signal(Signal::KILL);
        }
        // A container that a killed runc had started has a group, but no state yet.
        for group in self.groups_of(cell) {
            for process in self.layout.processes(&group).into_iter().filter_map(Process::find) {
                process.signal(Signal::KILL);
            }
        }
        if !state.exists() {
            return Ok(());
        }
        document::folder(&place.folder, 0o700)?;
        match self.runc(cell, [OsStr::new("delete"), OsStr::new("--force"), OsStr::new(&name)]) {
            // An incomplete state of a killed runc cannot be read, and has no container.
            Err(CellError::Tool { .. }) if !state.join("state.json").exists() => Ok(()),
            result => result,
        }
    }

    /// Returns the control groups of a cell, relative to the root of the hierarchies.
    fn groups_of(&self, cell: CellId) -> BTreeSet<String> {
        let found = self.layout.find(&self.settings.cgroup_root, &cell.to_string());
        let relative = |folder: &std::path::PathBuf| {
            let mounts = self.layout.mounts();
            let group = mounts.iter().find_map(|mount| folder.strip_prefix(mount).ok())?;
            group.to_str().map(str::to_owned)
        };
        found.iter().filter_map(relative).collect()
    }

    /// Waits for monitors to end with their process, and kills those that do not.
    fn end_monitors(&self, place: &Place) -> CellResult<()> {
        let since = Instant::now();
        loop {
            let left: Vec<Process> = monitor::monitors(&place.folder).filter_map(Process::find).collect();
            if left.is_empty() {
                return Ok(());
            }
            if since.elapsed() > Duration::from_secs(10) {
                let pids: Vec<u32> = left.iter().map(|process| process.pid).collect();
                let doing = "end the monitors of a cell".to_owned();
                return Err(CellError::Tool { doing, said: format!("processes {pids:?} do not end") });
            }
            if since.elapsed() > Duration::from_secs(1) {
                for process in &left {
                    process.signal(Signal::KILL);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Removes the oldest traces of removed cells beyond the limit.
    fn prune_traces(&self) {
        let Ok(living) = record::known(&self.settings.folder) else { return };
        let is_gone = |path: &Path| {
            let cell = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
            cell.is_none_or(|cell| !living.contains(&cell))
        };
        let Ok(entries) = fs::read_dir(self.settings.folder.join("trace")) else { return };
        let mut traces: Vec<_> = entries
            .flatten()
            .filter(|entry| is_gone(&entry.path()))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        if traces.len() > TRACES {
            traces.sort();
            for (_, path) in &traces[..traces.len() - TRACES] {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Opens the namespaces of a living cell, so that their numbers are not reused.
fn hold_namespaces(record: &Record) -> Vec<File> {
    let Some(init) = record.init.as_ref().filter(|init| init.alive()) else { return Vec::new() };
    let open = |kind: &&str| File::open(format!("/proc/{}/ns/{kind}", init.pid)).ok();
    let held: Vec<File> = process::NAMESPACES.iter().filter_map(open).collect();
    // Verified after opening: the PID was not reused before.
    if init.alive() { held } else { Vec::new() }
}

/// Drops the namespaces that no other process holds, after a moment for ending processes. The user namespace is kept as long
/// as any other: it owns them all, and distinguishes them from later ones with the same numbers.
fn forget_namespaces(record: &mut Record) {
    let since = Instant::now();
    let user = record.namespaces.get_key_value("user").map(|(kind, number)| (kind.clone(), *number));
    loop {
        record.namespaces.retain(|kind, number| {
            !process::holders(kind, *number, None).is_empty() || mounted_namespace(kind, *number)
        });
        if !record.namespaces.is_empty() {
            record.namespaces.extend(user.clone());
        }
        if record.namespaces.is_empty() || since.elapsed() > Duration::from_millis(500) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reports whether a mount keeps a namespace, as for named ones.
fn mounted_namespace(kind: &str, number: u64) -> bool {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let wanted = format!("{kind}:[{number}]");
    text.lines().any(|line| line.split(' ').nth(3) == Some(wanted.as_str()))
}
