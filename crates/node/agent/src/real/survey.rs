//! Survey of all platform resources on the machine, found by inspection, recorded or not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use muster_ids::{AllocationId, CellId};
use muster_network::{Found, Owner};
use muster_wire::task::{Findings, NodeResource, NodeResourceKind};

use super::sandbox::disk_id;
use super::{Done, Driver, said};
use crate::AgentError;

/// Mount point of control groups, v1 and v2.
const GROUPS: &str = "/sys/fs/cgroup";

fn thing(kind: NodeResourceKind, name: String) -> NodeResource {
    let parts = || name.split(['/', '.', ' ', '(', ')']);
    let (allocation_id, cell_id) =
        (parts().find_map(|part| part.parse().ok()), parts().find_map(|part| part.parse().ok()));
    NodeResource { kind, allocation_id, cell_id, network_id: None, name }
}

/// Result of a cleanup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// Number of removed resources.
    pub removed: usize,
    /// Resources that could not be removed.
    pub left: Vec<String>,
}

impl Driver {
    pub(super) fn survey(&self) -> Done<Findings> {
        let sandboxes = self.sandboxes.lock().list();
        let mut resources = self.resources()?;
        resources.extend(self.shares()?);
        Ok(Findings { sandboxes, resources, ..Findings::default() })
    }

    /// Lists all platform resources.
    fn resources(&self) -> Done<Vec<NodeResource>> {
        let mut found = BTreeSet::new();
        for cell in self.cells.list().map_err(said)? {
            // A record is not the cell: without its first process it does not exist.
            if !self.cells.look(cell.cell_id).map_err(said)?.present {
                continue;
            }
            found.insert(NodeResource {
                kind: NodeResourceKind::Cell,
                name: cell.cell_id.to_string(),
                allocation_id: Some(cell.allocation_id),
                cell_id: Some(cell.cell_id),
                network_id: None,
            });
        }
        let root = format!("muster/{}", self.settings.key);
        for hierarchy in hierarchies() {
            groups(&Path::new(&hierarchy).join(&root), &mut found);
        }
        for folder in ["cells", "runc"] {
            for name in entries(&self.settings.run.join("cells").join(folder)) {
                found.insert(thing(NodeResourceKind::File, name));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(said)?;
        let run = self.settings.run.display().to_string();
        for point in mounts.lines().filter_map(|line| line.split(' ').nth(4)) {
            if point.strip_prefix(&run).is_some_and(|rest| rest.starts_with('/')) {
                let kind = if point.contains("/networks/") {
                    NodeResourceKind::Namespace
                } else {
                    NodeResourceKind::Mount
                };
                // A network's namespace is listed below, with its network.
                if kind == NodeResourceKind::Mount {
                    found.insert(thing(kind, point.to_owned()));
                }
            }
        }
        let disks = self.disks.survey().map_err(said)?;
        let files = disks.files.iter().map(|file| file.path.display().to_string());
        let loops = disks.loops.iter().map(|device| format!("{} ({})", device.name, device.file.display()));
        found.extend(files.chain(loops).map(|name| thing(NodeResourceKind::Disk, name)));
        let strange = disks.strange.iter().map(|path| path.display().to_string());
        found.extend(strange.map(|name| thing(NodeResourceKind::File, name)));
        found.extend(self.fabric.survey().map_err(said)?.iter().filter_map(of_network));
        Ok(found.into_iter().collect())
    }

    /// Describes the remains of an allocation without a sandbox. Its disk is not included before it is wiped: its data is
    /// reported as residue.
    pub(super) fn left_of(&self, allocation: AllocationId) -> Done<Vec<String>> {
        let mine = |thing: &&NodeResource| {
            thing.allocation_id == Some(allocation) && thing.kind != NodeResourceKind::Disk
        };
        let left = self
            .resources()?
            .iter()
            .filter(mine)
            .map(|thing| format!("{:?} {}", thing.kind, thing.name))
            .collect();
        Ok(left)
    }

    /// Removes orphans. Known resources are left alone: the platform destroys them.
    pub(super) fn sweep(&self, resources: &[NodeResource]) -> Done<Findings> {
        let cells: BTreeSet<CellId> = resources.iter().filter_map(|thing| thing.cell_id).collect();
        for cell in cells {
            self.tear_down(cell, false)?;
        }
        let known: BTreeSet<AllocationId> =
            self.sandboxes().map_err(said)?.iter().map(|place| place.allocation_id).collect();
        let unknown = |thing: &&NodeResource| thing.allocation_id.is_some_and(|id| !known.contains(&id));
        let allocations: BTreeSet<AllocationId> =
            resources.iter().filter(unknown).filter_map(|thing| thing.allocation_id).collect();
        for allocation in allocations {
            self.cells.group_remove(allocation).map_err(said)?;
            let disk = disk_id(allocation)?;
            self.disks.detach(&disk).map_err(said)?;
            self.wipe_disk(&disk)?;
        }
        // Removes networks without a cell that are not desired here.
        let desired = self.desired.lock().clone();
        self.fabric.apply(&desired.networks).map_err(said)?;
        self.survey()
    }

    /// Removes all platform resources without a server, for a machine that leaves the platform. Every removal is tried, and
    /// the failures are returned.
    pub fn clean(&self) -> Result<Cleaned, AgentError> {
        let mut left = Vec::new();
        let found = self.resources().map_or(0, |resources| resources.len());
        let mut tried = |done: Done<()>| left.extend(done.err());
        for place in self.sandboxes()? {
            tried(self.destroy(&place, &[]).map(drop));
        }
        for cell in self.cells()? {
            tried(self.tear_down(cell.cell_id, false));
        }
        match self.disks.survey() {
            Err(error) => tried(Err(error.to_string())),
            Ok(disks) => {
                for disk in disks.files {
                    tried(self.disks.detach(&disk.id).map_err(said).and_then(|()| self.wipe_disk(&disk.id)));
                }
            }
        }
        tried(self.fabric.remove_all().map_err(said));
        // Resources without a record.
        tried(self.resources().and_then(|resources| self.sweep(&resources)).map(drop));
        match self.resources() {
            Ok(resources) => {
                left.extend(resources.iter().map(|thing| format!("{:?} {}", thing.kind, thing.name)))
            }
            Err(why) => left.push(why),
        }
        if left.is_empty() {
            left.extend(self.cells.remove_own_groups().err().map(said));
            self.remove_groups(&mut left);
        }
        Ok(Cleaned { removed: found.saturating_sub(left.len()), left })
    }

    /// Removes the parent control groups of the allocations. They hold nothing by themselves.
    fn remove_groups(&self, left: &mut Vec<String>) {
        for hierarchy in hierarchies() {
            let ours = Path::new(&hierarchy).join("muster");
            let group = ours.join(&self.settings.key);
            match fs::remove_dir(&group) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    left.push(format!("the control group {}: {error}", group.display()));
                }
                _ => {}
            }
            // It stays while other nodes of this machine have groups in it.
            let _ = fs::remove_dir(ours);
        }
    }
}

fn of_network(found: &Found) -> Option<NodeResource> {
    let kind = match found.thing {
        muster_network::NetworkResource::Namespace => NodeResourceKind::Namespace,
        muster_network::NetworkResource::Link => NodeResourceKind::Link,
        muster_network::NetworkResource::Rule
        | muster_network::NetworkResource::Entry
        | muster_network::NetworkResource::Setting => NodeResourceKind::Rule,
        muster_network::NetworkResource::Socket => NodeResourceKind::Link,
        muster_network::NetworkResource::Record => NodeResourceKind::File,
    };
    let (cell_id, network_id) = match found.owner {
        Some(Owner::Cell(cell)) => (Some(cell), None),
        Some(Owner::Network(network)) => (None, Some(network)),
        // A neighbour's entry belongs to its network, and the node's own to no resource.
        Some(Owner::Neighbour(_) | Owner::Node) if found.recorded => return None,
        Some(Owner::Neighbour(cell)) => (Some(cell), None),
        Some(Owner::Node) | None => (None, None),
    };
    Some(NodeResource { kind, name: found.to_string(), allocation_id: None, cell_id, network_id })
}

/// Returns the control group hierarchies: several in v1, one in v2, and both on some machines.
fn hierarchies() -> Vec<String> {
    let mut all: Vec<String> =
        entries(Path::new(GROUPS)).into_iter().filter(|path| Path::new(path).is_dir()).collect();
    all.push(GROUPS.to_owned());
    all
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().display().to_string()).collect()
}

fn groups(folder: &Path, found: &mut BTreeSet<NodeResource>) {
    for path in entries(folder) {
        if !Path::new(&path).is_dir() {
            continue;
        }
        let group = thing(NodeResourceKind::ControlGroup, path.clone());
        if group.allocation_id.is_some() || group.cell_id.is_some() {
            for pid in fs::read_to_string(Path::new(&path).join("cgroup.procs")).unwrap_or_default().lines() {
                found.insert(NodeResource {
                    kind: NodeResourceKind::Process,
                    name: format!("{pid} in {path}"),
                    ..group.clone()
                });
            }
            found.insert(group);
        }
        groups(Path::new(&path), found);
    }
}
