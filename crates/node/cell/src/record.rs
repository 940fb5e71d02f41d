//! Record of a cell, and the paths of its files.

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

/// Source of a cell's file system on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootSource {
    /// An unpacked image, possibly shared with other cells. It is never written to.
    Image {
        /// Folder of the image.
        folder: PathBuf,
        /// Environment from its configuration: `NAME=value`.
        environment: Vec<String>,
        /// Working directory from its configuration, if any.
        working_directory: Option<String>,
    },
    /// Directories of the node, read-only.
    Host {
        /// The directories; the caller has checked that the operator allows them.
        directories: Vec<PathBuf>,
    },
}

/// Shared directory of a network's cells on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Folder of the share.
    pub folder: PathBuf,
    /// First of the ids that own its content, the same on every node.
    pub first_id: u32,
}

impl Share {
    /// Returns the location of a shared directory, named by its path, because cells may share different ones. Only the file
    /// system's mount point is this node's own; another node may have created everything on it, including the share's
    /// folder.
    pub(crate) fn directory(&self, path: &str) -> Lasting {
        let name = path.trim_matches('/').replace('%', "%25").replace('/', "%2F");
        let mut share = Lasting::below_parent(&self.folder);
        share.is_shared = true;
        share.names.push(name);
        share
    }
}

/// A device node that a cell may open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Character device on the node.
    pub source: PathBuf,
    /// Path in the cell, under `/dev`.
    pub target: String,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
}

/// Phase of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Being created: parts of it may exist.
    Making,
    /// Created, without any of the tenant's processes.
    Made,
    /// Started.
    Started,
    /// Being destroyed: parts of it may still exist.
    Destroying,
}

/// All state needed to continue with a cell after a crash, or to remove it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) cell_id: CellId,
    pub(crate) allocation_id: AllocationId,
    pub(crate) incarnation: i64,
    pub(crate) name: String,
    /// Specification without the content of files, which may be secret and is written into the cell once. For secrets it has
    /// only the names.
    pub(crate) spec: CellSpec,
    pub(crate) root: RootSource,
    pub(crate) storage: PathBuf,
    /// Location of its shared directories.
    #[serde(default)]
    pub(crate) share: Option<Share>,
    pub(crate) devices: Vec<Device>,
    /// First id of its range.
    pub(crate) ids: u32,
    pub(crate) phase: Phase,
    /// First process.
    pub(crate) init: Option<Process>,
    /// Namespace numbers by kind; after its processes ended, those still held at that time.
    pub(crate) namespaces: BTreeMap<String, u64>,
    /// Start of its end, in ticks since the machine's start.
    #[serde(default)]
    pub(crate) ended: Option<u64>,
    /// Requested states of its services since it was created, by name.
    #[serde(default)]
    pub(crate) wishes: BTreeMap<String, Wish>,
}

/// Requested state of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// First run that satisfies it; none if the service should not run.
    pub(crate) run: Option<u32>,
    /// Task of the request: a repeated one changes nothing.
    pub(crate) by: String,
}

/// Data of a cell that outlives its record, for finding its remains.
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

/// Paths of one cell. An id is safe in a path: it has a fixed alphabet.
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

    /// Returns the directories that outlive the cell: the mount point of each on the node, and its path in the cell. Parents
    /// come first, because they would hide their children otherwise.
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

    /// Returns the temporary mount point of the cell's secrets, empty.
    pub(crate) fn secrets(&self) -> PathBuf {
        self.run.join("secrets")
    }

    /// Returns the folder of the checks beside the cell.
    pub(crate) fn witnesses(&self) -> PathBuf {
        self.run.join("witness")
    }

    /// Returns a file of the cell's `/etc` that the platform writes.
    pub(crate) fn etc(&self, file: &str) -> PathBuf {
        self.run.join("etc").join(file)
    }

    /// Returns the folder of a service. `name` is validated.
    pub(crate) fn service(&self, name: &str) -> PathBuf {
        self.folder.join("service").join(name)
    }

    /// Returns the folder of a command. `id` is validated.
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

/// Lists the cells with a folder under `settings.folder`, whatever its content.
pub(crate) fn known(folder: &Path) -> CellResult<Vec<CellId>> {
    named_in(&folder.join("cells"))
}

/// Lists the cells with a trace; those that were destroyed are among them.
pub(crate) fn traced(folder: &Path) -> CellResult<Vec<CellId>> {
    named_in(&folder.join("trace"))
}

/// Returns the cells that the entries of a folder are named after.
fn named_in(folder: &Path) -> CellResult<Vec<CellId>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(CellError::System { doing: format!("list {}", folder.display()), source: error });
        }
    };
    let mut cells: Vec<CellId> =
        entries.flatten().filter_map(|entry| entry.path().file_stem()?.to_str()?.parse().ok()).collect();
    cells.sort();
    Ok(cells)
}
