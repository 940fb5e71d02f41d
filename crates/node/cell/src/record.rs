//! What is remembered of a cell, and where its things lie.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_ids::{AllocationId, CellId};
use muster_wire::cell::CellSpec;
use serde::{Deserialize, Serialize};

use crate::document;
use crate::error::{CellError, CellResult};
use crate::lasting::Lasting;
use crate::process::Process;
use crate::settings::Settings;

/// Where a cell's file system comes from, as it lies on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootSource {
    /// An unpacked image that others may share. Nothing is written into it.
    Image {
        /// Its folder.
        folder: PathBuf,
        /// What its configuration says of the environment: `NAME=value`.
        environment: Vec<String>,
        /// Where its programs start, if it says.
        working_directory: Option<String>,
    },
    /// Directories of the node, read-only.
    Host {
        /// Which; the caller has checked that the operator allows them.
        directories: Vec<PathBuf>,
    },
}

/// What the cells of a network share, as it lies on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its folder.
    pub folder: PathBuf,
    /// The first of the ids that own what is in it, the same for every node.
    pub first_id: u32,
}

impl Share {
    /// Where a directory of that path lies: by its path, because not all that share name the same ones. Only the file system
    /// itself is this node's own; everything on it, the share's folder too, may have been put there by another node.
    pub(crate) fn directory(&self, path: &str) -> Lasting {
        let name = path.trim_matches('/').replace('%', "%25").replace('/', "%2F");
        let mut share = Lasting::below_parent(&self.folder);
        share.names.push(name);
        share
    }
}

/// A device node that a cell may open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The character device on the node.
    pub source: PathBuf,
    /// Where it is found in the cell: under `/dev`.
    pub target: String,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
}

/// How far a cell has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Something of it may be there.
    Making,
    /// Everything is there, and nothing of the tenant's runs yet.
    Made,
    /// It runs.
    Started,
    /// Something of it may be there still.
    Destroying,
}

/// All that must be known to go on with a cell after a crash, or to remove it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) cell_id: CellId,
    pub(crate) allocation_id: AllocationId,
    pub(crate) incarnation: i64,
    pub(crate) name: String,
    /// Without the texts of its files: they may be secret, and are written into the cell once. Of secrets it has the names.
    pub(crate) spec: CellSpec,
    pub(crate) root: RootSource,
    pub(crate) storage: PathBuf,
    /// Where the directories lie that it shares.
    #[serde(default)]
    pub(crate) share: Option<Share>,
    pub(crate) devices: Vec<Device>,
    /// The first id of its range.
    pub(crate) ids: u32,
    pub(crate) phase: Phase,
    /// Its first process.
    pub(crate) init: Option<Process>,
    /// The numbers of its namespaces by kind; of a cell whose processes were ended, those that somebody still held then.
    pub(crate) namespaces: BTreeMap<String, u64>,
    /// When its end began, in ticks since the machine's start.
    #[serde(default)]
    pub(crate) ended: Option<u64>,
    /// What was asked for of its services since it was made, by name.
    #[serde(default)]
    pub(crate) wishes: BTreeMap<String, Wish>,
}

/// What somebody asked for of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// The first run that answers it; none, if it is not to run.
    pub(crate) run: Option<u32>,
    /// Who asked: the same one asks for nothing new.
    pub(crate) by: String,
}

/// What is remembered of a cell beside its record and for longer: where to look for what it may have left.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trace {
    pub(crate) allocation_id: AllocationId,
    pub(crate) incarnation: i64,
    pub(crate) layer: PathBuf,
    pub(crate) ids: u32,
    pub(crate) namespaces: BTreeMap<String, u64>,
    pub(crate) ended: Option<u64>,
}

impl Record {
    pub(crate) fn layer(&self) -> PathBuf {
        self.storage.join("layer").join(self.cell_id.to_string())
    }

    pub(crate) fn state(&self, number: usize) -> PathBuf {
        self.states().join(number.to_string())
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.storage.join("state").join(&self.name)
    }

    pub(crate) fn trace(&self) -> Trace {
        Trace {
            allocation_id: self.allocation_id,
            incarnation: self.incarnation,
            layer: self.layer(),
            ids: self.ids,
            namespaces: self.namespaces.clone(),
            ended: self.ended,
        }
    }
}

/// Where the things of one cell lie. An id is safe in a path: it has a fixed alphabet.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) run: PathBuf,
    pub(crate) trace: PathBuf,
}

impl Place {
    pub(crate) fn of(settings: &Settings, cell: CellId) -> Self {
        let name = cell.to_string();
        Self {
            folder: settings.folder.join("cells").join(&name),
            run: settings.run.join("cells").join(&name),
            trace: settings.folder.join("trace").join(format!("{name}.json")),
        }
    }

    pub(crate) fn record_file(&self) -> PathBuf {
        self.folder.join("record.json")
    }

    pub(crate) fn rootfs(&self) -> PathBuf {
        self.run.join("rootfs")
    }

    pub(crate) fn lower(&self) -> PathBuf {
        self.run.join("lower")
    }

    pub(crate) fn state_mount(&self, number: usize) -> PathBuf {
        self.run.join("state").join(number.to_string())
    }

    pub(crate) fn shared_mount(&self, number: usize) -> PathBuf {
        self.run.join("shared").join(number.to_string())
    }

    /// The directories that outlive the cell: where each is mounted on the node, and where it is found in the cell. One comes
    /// before those inside it, which it would hide otherwise.
    pub(crate) fn lasting<'r>(&self, record: &'r Record) -> Vec<(PathBuf, &'r str)> {
        let states = record.spec.state.iter().enumerate();
        let shared = record.spec.shared.iter().enumerate();
        let mut all: Vec<(PathBuf, &str)> = states
            .map(|(number, target)| (self.state_mount(number), target.as_str()))
            .chain(shared.map(|(number, target)| (self.shared_mount(number), target.as_str())))
            .collect();
        all.sort_by_key(|(_, target)| *target);
        all
    }

    /// Where the file system of the cell's secrets is attached for a moment, empty.
    pub(crate) fn secrets(&self) -> PathBuf {
        self.run.join("secrets")
    }

    /// Where checks beside the cell have their things.
    pub(crate) fn witnesses(&self) -> PathBuf {
        self.run.join("witness")
    }

    /// A file of the cell's `/etc` that is ours to rewrite.
    pub(crate) fn etc(&self, file: &str) -> PathBuf {
        self.run.join("etc").join(file)
    }

    /// `name` has been checked to be a service's name.
    pub(crate) fn service(&self, name: &str) -> PathBuf {
        self.folder.join("service").join(name)
    }

    /// `id` has been checked to be a command's id.
    pub(crate) fn command(&self, id: &str) -> PathBuf {
        self.folder.join("command").join(id)
    }

    pub(crate) fn read_record(&self) -> CellResult<Option<Record>> {
        document::read(&self.record_file())
    }

    pub(crate) fn write_record(&self, record: &Record) -> CellResult<()> {
        document::write(&self.record_file(), record)
    }

    pub(crate) fn need_record(&self, cell: CellId) -> CellResult<Record> {
        self.read_record()?.ok_or(CellError::NoCell(cell))
    }
}

/// The cells that have a folder under `settings.folder`, whatever is in it.
pub(crate) fn known(folder: &Path) -> CellResult<Vec<CellId>> {
    let entries = match std::fs::read_dir(folder.join("cells")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(CellError::System { doing: format!("list {}", folder.display()), source: error });
        }
    };
    let mut cells: Vec<CellId> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    cells.sort();
    Ok(cells)
}
