//! Creates and starts a cell.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use muster_ids::{AllocationId, CellId};
use muster_wire::cell::{CellSpec, Person};

use crate::bundle;
use crate::cells::Cells;
use crate::check;
use crate::destroy::Reason;
use crate::document;
use crate::error::{CellError, CellResult, refused};
use crate::file::{self, NewFile};
use crate::people;
use crate::process::{self, Process};
use crate::record::{Device, Phase, Place, Record, RootSource, Share, Trace};
use crate::root;
use crate::secret::{Secret, Vault};
use crate::tool;

/// Parameters of a cell to create.
#[derive(Debug, Clone)]
pub struct Make<'a> {
    /// Cell id.
    pub cell_id: CellId,
    /// Allocation of the cell.
    pub allocation_id: AllocationId,
    /// Incarnation.
    pub incarnation: i64,
    /// Name, also the host name.
    pub name: &'a str,
    /// Specification.
    pub spec: &'a CellSpec,
    /// Source of the file system on this node.
    pub root: RootSource,
    /// The allocation's private storage, for the cell's writes.
    pub storage: &'a Path,
    /// Shared directory of its network; required if the specification has shared directories.
    pub share: Option<Share>,
    /// Devices it may open.
    pub devices: Vec<Device>,
    /// Content of `/etc/hosts`.
    pub hosts: &'a str,
    /// Secrets: exactly those of the specification.
    pub secrets: &'a [Secret<'a>],
}

/// A created cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// PID of its first process on the node, which waits. Its network namespace can be configured now.
    pub pid: u32,
}

impl Cells {
    /// Creates a cell without starting it. Idempotent for the same incarnation; a partial cell left by a crash is created
    /// again. A failure leaves nothing behind.
    pub fn make(&self, make: &Make<'_>) -> CellResult<Made> {
        check::validate_create(make)?;
        let turn = self.turn(make.cell_id);
        let _turn = turn.lock();
        let place = self.place(make.cell_id);
        if let Some(there) = place.read_record()? {
            if there.incarnation > make.incarnation {
                return refused(format!(
                    "incarnation {} of {} exists here, and {} is older",
                    there.incarnation, make.cell_id, make.incarnation
                ));
            }
            match (&there.init, there.phase) {
                (Some(init), Phase::Made | Phase::Started)
                    if there.incarnation == make.incarnation && init.alive() =>
                {
                    return Ok(Made { pid: init.pid });
                }
                (Some(init), Phase::Started) if init.alive() => {
                    return refused(format!(
                        "incarnation {} of {} runs here; destroy it before creating another",
                        there.incarnation, make.cell_id
                    ));
                }
                _ => self.remove_all(make.cell_id, &Reason::Remade)?,
            }
        }
        if let Some(gone) =
            document::read::<Trace>(&place.trace)?.filter(|gone| gone.incarnation > make.incarnation)
        {
            return refused(format!(
                "incarnation {} of {} was here, and {} is older",
                gone.incarnation, make.cell_id, make.incarnation
            ));
        }
        check::secrets(make)?;
        self.build(make, &place).inspect_err(|_| {
            if let Err(error) = self.remove_all(make.cell_id, &Reason::Failed) {
                tracing::warn!(cell = %make.cell_id, %error, "the remains of a failed cell could not be removed");
            }
        })
    }

    fn build(&self, make: &Make<'_>, place: &Place) -> CellResult<Made> {
        let (ids, at_rest) = {
            let ranges = self.ranges.lock();
            (ranges.take(make.cell_id)?, ranges.at_rest())
        };
        self.reach("cell_create:range-taken");
        let mut spec = make.spec.clone();
        spec.files.clear();
        let mut record = Record {
            cell_id: make.cell_id,
            allocation_id: make.allocation_id,
            incarnation: make.incarnation,
            name: make.name.to_owned(),
            spec,
            root: make.root.clone(),
            storage: make.storage.to_path_buf(),
            share: make.share.clone(),
            devices: make.devices.clone(),
            ids,
            phase: Phase::Making,
            init: None,
            namespaces: BTreeMap::new(),
            ended: None,
            wishes: BTreeMap::new(),
        };
        document::folder(&place.folder, 0o700)?;
        self.save(&record)?;
        self.reach("cell_create:recorded");

        document::folder(&place.run, 0o711)?;
        document::folder(&place.run.join("etc"), 0o711)?;
        root::mount(&self.settings.tools, place, &record, at_rest)?;
        self.reach("cell_create:root-mounted");

        for (name, _) in bundle::etc_files(&record) {
            let text = match name {
                "hosts" => make.hosts.to_owned(),
                "hostname" => format!("{}\n", make.name),
                _ => String::new(),
            };
            root::write_etc(place, name, &text, ids)?;
        }
        let vault = Vault::open(place, &record)?;
        let config = bundle::config(&self.settings.tools, place, &record, &self.cell_group(&record));
        document::write(&place.run.join("config.json"), &config)?;
        self.reach("cell_create:bundle-written");

        let pid_file = place.run.join("pid");
        self.runc(
            make.cell_id,
            [
                OsStr::new("create"),
                OsStr::new("--bundle"),
                place.run.as_os_str(),
                OsStr::new("--pid-file"),
                pid_file.as_os_str(),
                OsStr::new(&make.cell_id.to_string()),
            ],
        )?;
        self.reach("cell_create:container-created");

        let Some(init) = process::pid_in(&pid_file).and_then(Process::find) else {
            let doing = format!("make {}", make.cell_id);
            return Err(CellError::Tool { doing, said: "its first process ended immediately".to_owned() });
        };
        record.namespaces = process::namespaces(init.pid);
        if record.namespaces.len() != process::NAMESPACES.len() {
            return refused(format!(
                "{} lacks namespaces of its own; this is a fault of the runtime",
                make.cell_id
            ));
        }
        self.layout.deny_extra_devices(&self.cell_group(&record))?;
        vault.fill(place, ids, make.secrets)?;
        self.reach("cell_create:secrets-written");
        for file in &make.spec.files {
            file::write(
                &init,
                ids,
                &mut NewFile {
                    path: &file.path,
                    mode: check::mode(&file.mode)?,
                    uid: file.uid,
                    gid: file.gid,
                    content: &mut file.text.as_bytes(),
                },
            )?;
        }
        let pid = init.pid;
        record.init = Some(init);
        record.phase = Phase::Made;
        self.save(&record)?;
        self.reach("cell_create:made");
        Ok(Made { pid })
    }

    /// Starts a cell: its first process, and its services with the next [`Cells::supervise`]. A running cell is left alone.
    pub fn start(&self, cell: CellId) -> CellResult<()> {
        let turn = self.turn(cell);
        let _turn = turn.lock();
        let mut record = (*self.record(cell)?).clone();
        match record.phase {
            Phase::Started => return Ok(()),
            Phase::Made => {}
            Phase::Making => {
                return refused(format!("{cell} is not created yet; create it again, then start it"));
            }
            Phase::Destroying => return refused(format!("{cell} is being destroyed")),
        }
        let name = cell.to_string();
        // It may already run after a crash: its first process is then no longer runc's.
        let runs = record.init.as_ref().is_some_and(|init| {
            process::arguments(init.pid).first().is_some_and(|first| first == bundle::INIT)
        });
        if !runs {
            self.runc(cell, [OsStr::new("start"), OsStr::new(&name)])?;
        }
        record.phase = Phase::Started;
        self.save(&record)?;
        self.reach("cell_create:started");
        Ok(())
    }

    /// Rewrites the cell's `/etc/hosts`, also while it is running.
    pub fn write_hosts(&self, cell: CellId, text: &str) -> CellResult<()> {
        root::write_etc(&self.place(cell), "hosts", text, self.record(cell)?.ids)
    }

    /// Rewrites the cell's `/etc/resolv.conf`, also while it is running.
    pub fn write_resolv(&self, cell: CellId, text: &str) -> CellResult<()> {
        root::write_etc(&self.place(cell), "resolv.conf", text, self.record(cell)?.ids)
    }

    /// Rewrites the cell's users, also while it is running.
    pub fn write_people(&self, cell: CellId, people: &[Person]) -> CellResult<()> {
        let record = self.record(cell)?;
        if !record.spec.people {
            return refused(format!("{cell} did not request people"));
        }
        let place = self.place(cell);
        for (name, text) in people::files(people) {
            root::write_etc(&place, name, &text, record.ids)?;
        }
        Ok(())
    }

    /// Runs runc for a cell. The container's first process inherits runc's streams, so they are discarded, and errors are
    /// read from runc's log.
    pub(crate) fn runc<'a>(
        &self,
        cell: CellId,
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> CellResult<()> {
        let log = self.place(cell).folder.join("runc.log");
        document::remove(&log)?;
        let arguments: Vec<&OsStr> = arguments.into_iter().collect();
        let verb = arguments.first().map(|verb| verb.to_string_lossy().into_owned()).unwrap_or_default();
        let mut command = muster_exec::command(&self.settings.tools.runc);
        command.arg("--root").arg(self.runc_root()).arg("--log").arg(&log).args(&arguments);
        tool::run(command, &log, || format!("{verb} the container of {cell}"))
    }
}
