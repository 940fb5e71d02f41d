//! Finds the remains of a cell in the kernel's own lists and on disk, independent of our records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use muster_ids::CellId;
use muster_wire::cell::CellDeath;

use crate::cells::Cells;
use crate::document;
use crate::error::CellResult;
use crate::namespace_owner;
use crate::process;
use crate::range::SIZE;
use crate::record::Trace;

impl Cells {
    /// Describes all remains of a cell; for a running cell, all of its resources.
    pub fn leftovers(&self, cell: CellId) -> CellResult<Vec<String>> {
        Ok(self.search(cell)?.left)
    }

    /// Returns the remains, and the checks that were made.
    pub(crate) fn search(&self, cell: CellId) -> CellResult<Remains> {
        let place = self.place(cell);
        let name = cell.to_string();
        let held = self.ranges.lock().held()?;
        // An unreadable record is itself a remnant, and is found as a file below.
        let known: Option<Trace> = match place.read_record() {
            Ok(Some(record)) => Some(record.trace()),
            _ => document::read(&place.trace).unwrap_or_default(),
        };
        let namespaces = known.as_ref().map(|known| known.namespaces.clone()).unwrap_or_default();
        // Ids that now belong to another cell are no evidence.
        let ids = held.get(&cell).copied().or_else(|| {
            known.as_ref().map(|known| known.ids).filter(|ids| !held.values().any(|other| other == ids))
        });

        let mut left = BTreeSet::new();
        processes(&name, ids, &mut left);
        let processes = left.len();
        let until = known.as_ref().and_then(|known| known.ended);
        for (kind, number) in &namespaces {
            // Namespace numbers are reused: a process in another cell's group belongs to that cell.
            let is_of_cell = |pid: &u32| {
                let path = format!("/proc/{pid}/ns/{kind}");
                !in_another_cell(*pid, cell) && may_be_of_cell(kind, Path::new(&path), &namespaces)
            };
            for pid in process::holders(kind, *number, until).into_iter().filter(is_of_cell) {
                left.insert(format!("{kind} namespace {number}, held by process {pid}"));
            }
        }
        let held_namespaces = left.len() - processes;
        mounts(&name, &namespaces, &mut left);
        let mounts = left.len() - processes - held_namespaces;
        for folder in self.layout.find(&self.settings.cgroup_root, &name) {
            left.insert(format!("control group {}", folder.display()));
        }
        let mut folders: Vec<PathBuf> =
            vec![place.folder.clone(), place.run.clone(), self.runc_root().join(&name)];
        folders.extend(known.iter().map(|known| known.layer.clone()));
        for folder in folders {
            if fs::symlink_metadata(&folder).is_ok() {
                left.insert(format!("folder {}", folder.display()));
            }
        }
        if let Some(first) = held.get(&cell) {
            left.insert(format!("the range of ids from {first}"));
        }
        let checked = vec![
            "every process: its control groups, arguments, namespaces and owner".to_owned(),
            "the mounts of every mount namespace, that of its secrets among them".to_owned(),
            format!("the control groups below {} in every hierarchy", self.settings.cgroup_root),
            "the folders of the cell and of its private layer".to_owned(),
            "the ranges of ids".to_owned(),
        ];
        Ok(Remains {
            left: left.into_iter().collect(),
            checked,
            processes,
            namespaces: held_namespaces,
            mounts,
        })
    }
}

/// Result of a search for a cell.
pub(crate) struct Remains {
    /// Descriptions of all remains.
    pub(crate) left: Vec<String>,
    /// Checks that were made.
    pub(crate) checked: Vec<String>,
    processes: usize,
    namespaces: usize,
    mounts: usize,
}

impl Remains {
    /// Returns the counts that prove or disprove the death of the cell, in this boot.
    pub(crate) fn death(&self) -> CellDeath {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        CellDeath {
            boot_id: process::boot(),
            processes: count(self.processes),
            namespaces: count(self.namespaces),
            mounts: count(self.mounts),
        }
    }
}

fn in_another_cell(pid: u32, cell: CellId) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut named =
        groups.lines().flat_map(|line| line.split('/')).filter_map(|part| part.parse::<CellId>().ok());
    named.any(|other| other != cell)
}

fn processes(name: &str, ids: Option<u32>, left: &mut BTreeSet<String>) {
    let own = std::process::id();
    for pid in process::all().into_iter().filter(|pid| *pid != own) {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let in_group = groups.lines().any(|line| line.split('/').any(|part| part == name));
        let arguments = process::arguments(pid);
        let monitors = arguments.first().is_some_and(|program| Path::new(program).ends_with("conmon"))
            && arguments.iter().any(|argument| argument.split('/').any(|part| part == name));
        let owner = fs::metadata(format!("/proc/{pid}")).map(|seen| seen.uid()).unwrap_or_default();
        let has_ids = ids.is_some_and(|first| (first..first.saturating_add(SIZE)).contains(&owner));
        if in_group || monitors || has_ids {
            let what = arguments.first().map(String::as_str).unwrap_or_default();
            left.insert(format!("process {pid} ({})", what.escape_debug()));
        }
    }
}

/// Reports whether the namespace at `path`, with the number of one of the cell's, can be the cell's: its owner is not known
/// to be a different user namespace. A user namespace is owned by its parent, which proves nothing.
fn may_be_of_cell(kind: &str, path: &Path, namespaces: &BTreeMap<String, u64>) -> bool {
    let (false, Some(user)) = (kind == "user", namespaces.get("user")) else { return true };
    !namespace_owner::owner(path).is_ok_and(|owner| owner != *user)
}

fn mounts(name: &str, namespaces: &BTreeMap<String, u64>, left: &mut BTreeSet<String>) {
    let mut seen = BTreeSet::new();
    let own = std::process::id();
    for pid in std::iter::once(own).chain(process::all()) {
        // Many processes share a mount namespace; one read of each is enough.
        if !process::namespace(pid, "mnt").is_some_and(|number| seen.insert(number)) {
            continue;
        }
        let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        for line in text.lines() {
            let mut fields = line.split(' ').skip(3);
            let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
            let ours = [root, point].iter().any(|path| path.split('/').any(|part| part == name));
            // A mount without our path may still have our name, like the file system of a cell's secrets.
            let source = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').nth(1));
            let holds = namespaces.iter().any(|(kind, number)| {
                root == format!("{kind}:[{number}]")
                    && may_be_of_cell(kind, Path::new(&format!("/proc/{pid}/root{point}")), namespaces)
            });
            if ours || holds || source == Some(name) {
                left.insert(format!("mount at {point}"));
            }
        }
    }
}
