//! The sandbox of an allocation: a control group shared by its cells, and a disk of its own.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_cell::Limits;
use muster_disk::DiskId;
use muster_ids::{AllocationId, CellId, ProjectId, TenantId};
use muster_wire::act::{Prepare, Resize};
use muster_wire::cell::CellRef;
use muster_wire::task::{Amount, Findings, SandboxRef};
use serde::{Deserialize, Serialize};

use super::{Done, Driver, said};
use crate::AgentError;
use crate::folder::Folder;

const FILE: &str = "sandboxes.json";
/// Interval of the disk checks.
const DISKS_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Name of the disk in the residue.
const DISK: &str = "disk";

/// The sandboxes, and the devices not wiped since their last use.
#[derive(Debug)]
pub(super) struct Sandboxes {
    folder: Folder,
    held: Held,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Held {
    sandboxes: BTreeMap<AllocationId, Kept>,
    /// Devices that were in a sandbox and have not been wiped since, with the allocation.
    dirty: BTreeMap<String, AllocationId>,
    /// Devices that were wiped and in no sandbox since. A device in neither set is not known to be clean: if this file is
    /// lost, everything must be wiped again.
    #[serde(default)]
    wiped: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    incarnation: i64,
    pub(super) devices: BTreeSet<String>,
    amount: Amount,
    exclusive: bool,
    #[serde(default)]
    pub(super) project: Option<ProjectId>,
    #[serde(default)]
    pub(super) tenant: Option<TenantId>,
}

impl Held {
    /// Marks devices as dirty as soon as a tenant has access.
    fn give(&mut self, devices: &BTreeSet<String>, to: AllocationId) {
        self.dirty.extend(devices.iter().map(|device| (device.clone(), to)));
        self.wiped.retain(|device| !devices.contains(device));
    }
}

impl Sandboxes {
    pub(super) fn open(folder: &std::path::Path) -> Result<Self, AgentError> {
        let folder = Folder::new(folder);
        folder.make()?;
        Ok(Self { held: folder.read_document(FILE)?.unwrap_or_default(), folder })
    }

    pub(super) fn list(&self) -> Vec<SandboxRef> {
        let place = |(id, kept): (&AllocationId, &Kept)| SandboxRef {
            allocation_id: *id,
            incarnation: kept.incarnation,
        };
        self.held.sandboxes.iter().map(place).collect()
    }

    pub(super) fn get(&self, allocation: AllocationId) -> Option<&Kept> {
        self.held.sandboxes.get(&allocation)
    }

    /// Returns the allocations for which `is_of` holds.
    pub(super) fn filtered(&self, is_of: impl Fn(&Kept) -> bool) -> BTreeSet<AllocationId> {
        self.held.sandboxes.iter().filter(|(_, kept)| is_of(kept)).map(|(id, _)| *id).collect()
    }

    /// Applies a change, persisted before any other effect.
    fn change(&mut self, change: impl FnOnce(&mut Held)) -> Done<()> {
        let mut next = self.held.clone();
        change(&mut next);
        self.folder.write_document(FILE, &next).map_err(said)?;
        self.held = next;
        Ok(())
    }

    fn holder(&self, device: &str) -> Option<AllocationId> {
        self.held.sandboxes.iter().find(|(_, kept)| kept.devices.contains(device)).map(|(id, _)| *id)
    }

    /// Returns the reason why these devices must not be given to this allocation, if any.
    fn untouchable(&self, allocation: AllocationId, devices: &BTreeSet<String>) -> Option<String> {
        devices.iter().find_map(|device| {
            let other = |id: &AllocationId| *id != allocation;
            if let Some(holder) = self.holder(device).filter(other) {
                return Some(format!("{device} is in the sandbox of {holder}"));
            }
            let left = self.held.dirty.get(device).filter(|id| other(id))?;
            Some(format!("{device} has not been wiped since it was in the sandbox of {left}"))
        })
    }

    /// Returns the reason why exclusive use is violated, if any.
    fn alone(&self, allocation: AllocationId, exclusive: bool) -> Option<String> {
        let mut others = self.held.sandboxes.iter().filter(|(id, _)| **id != allocation);
        let (other, _) = others.find(|(_, kept)| exclusive || kept.exclusive)?;
        Some(if exclusive {
            format!("the whole node was requested, but {other} is on it")
        } else {
            format!("the whole node belongs to {other}")
        })
    }
}

fn limits(amount: &Amount) -> Done<Limits> {
    Limits::new(u32::try_from(amount.cpus).unwrap_or(0), megabytes(amount.memory_mb)).map_err(said)
}

/// Returns the id of an allocation's disk.
pub(super) fn disk_id(allocation: AllocationId) -> Done<DiskId> {
    allocation.to_string().parse().map_err(said)
}

/// Reports whether the kernel allows enlarging a mounted file system.
fn may_grow_in_use() -> bool {
    let capabilities = rustix::thread::capabilities(None);
    capabilities.is_ok_and(|all| all.effective.contains(rustix::thread::CapabilitySet::SYS_RESOURCE))
}

fn megabytes(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

impl Driver {
    /// Overwrites a disk, verifies it, and removes it only if no residue was found.
    pub(super) fn wipe_disk(&self, id: &DiskId) -> Done<()> {
        if self.disks.look(id).map_err(said)?.is_none() {
            return Ok(());
        }
        self.disks.wipe(id).map_err(said)?;
        if self.disks.residue(id).map_err(said)?.is_empty() {
            self.disks.remove(id).map_err(said)?;
        }
        Ok(())
    }

    pub(super) fn held(&self) -> parking_lot::MutexGuard<'_, Sandboxes> {
        self.sandboxes.lock()
    }

    /// Mounts the disks of sandboxes again: after a reboot none is mounted.
    pub(super) fn remount(&self) {
        let sandboxes: Vec<(AllocationId, Kept)> =
            self.held().held.sandboxes.iter().map(|(id, kept)| (*id, kept.clone())).collect();
        for (id, kept) in sandboxes {
            let again = (|| {
                // The disk may have grown before the amount was recorded.
                let disk = disk_id(id)?;
                let there = self.disks.look(&disk).map_err(said)?.map_or(0, |look| look.size_mb);
                self.disks.make(&disk, there.max(megabytes(kept.amount.disk_mb))).map_err(said)?;
                self.cells.group_make(id, limits(&kept.amount)?).map_err(said)
            })();
            // One failed sandbox does not block the others; an inspection reports it as missing.
            if let Err(why) = again {
                tracing::error!(allocation = %id, why, "the sandbox could not be restored after a start");
            }
        }
    }

    /// Reports disks that an error made read-only, and allocates the promised space of each disk on the node.
    pub(super) fn look_after_disks(&self, now: Timestamp) {
        let mut seen = self.disks_seen.lock();
        if seen.0.is_some_and(|last| now.duration_since(last) < DISKS_EVERY) {
            return;
        }
        seen.0 = Some(now);
        let read_only: BTreeSet<DiskId> = match self.disks.read_only() {
            Ok(found) => found.into_iter().collect(),
            Err(error) => return tracing::warn!(%error, "disks could not be inspected; retrying"),
        };
        for disk in read_only.difference(&seen.1) {
            tracing::error!(%disk, "an error made the disk of an allocation read-only: restart the allocation");
        }
        seen.1 = read_only;
        for place in self.held().list() {
            let kept = disk_id(place.allocation_id).and_then(|disk| {
                let look = self.disks.look(&disk).map_err(said)?;
                let sparse = look.is_some_and(|look| look.mounted && look.taken_mb < look.size_mb);
                if sparse { self.disks.reserve(&disk).map_err(said) } else { Ok(()) }
            });
            if let Err(why) = kept {
                tracing::warn!(allocation = %place.allocation_id, why, "the disk has less space than reserved");
            }
        }
    }

    pub(super) fn prepare(&self, place: &SandboxRef, act: &Prepare) -> Done<Findings> {
        let (id, resources) = (place.allocation_id, &act.resources);
        let devices: BTreeSet<String> = resources.devices.iter().cloned().collect();
        self.settings.device_nodes(&resources.devices)?;
        {
            let mut held = self.held();
            if let Some(kept) = held.get(id)
                && (kept.incarnation != place.incarnation || kept.devices != devices)
            {
                let there = kept.incarnation;
                return Err(format!(
                    "its sandbox already exists: incarnation {there}, with {:?}",
                    kept.devices
                ));
            }
            if let Some(why) = held.alone(id, act.exclusive).or_else(|| held.untouchable(id, &devices)) {
                tracing::error!(allocation = %id, why, "violation: this was not done");
                return Err(format!("violation: {why}"));
            }
            if held.get(id).is_none() {
                let kept = Kept {
                    incarnation: place.incarnation,
                    devices: devices.clone(),
                    amount: resources.amount,
                    exclusive: act.exclusive,
                    project: Some(act.allocation.project_id),
                    tenant: Some(act.allocation.tenant_id),
                };
                held.change(|held| {
                    held.give(&devices, id);
                    held.sandboxes.insert(id, kept);
                })?;
            }
        }
        let made = (|| {
            let (disk, mb) = (disk_id(id)?, megabytes(resources.amount.disk_mb));
            self.with_room_for_disk(mb, || self.disks.make(&disk, mb))?;
            self.cells.group_make(id, limits(&resources.amount)?).map_err(said)
        })();
        if let Err(why) = made {
            // A definite failure must leave nothing behind.
            self.destroy(place, &resources.devices)?;
            return Err(why);
        }
        self.inspect(place, &resources.devices, &[])
    }

    pub(super) fn resize(&self, place: &SandboxRef, act: &Resize) -> Done<Findings> {
        let (id, resources) = (place.allocation_id, &act.resources);
        let devices: BTreeSet<String> = resources.devices.iter().cloned().collect();
        let before = self.held().get(id).cloned().ok_or_else(|| "its sandbox does not exist".to_owned())?;
        if before.incarnation != place.incarnation {
            return Err(format!("its sandbox has incarnation {}", before.incarnation));
        }
        if before.devices != devices && !self.cells_of(id)?.is_empty() {
            return Err("its cells hold its devices: destroy them first".to_owned());
        }
        if let Some(why) = self.held().untouchable(id, &devices) {
            return Err(format!("violation: {why}"));
        }
        let limits = limits(&resources.amount)?;
        if let Some(why) = self.uses_more_memory(id, before.amount.memory_mb, resources.amount.memory_mb) {
            return Err(why);
        }
        // A disk is never shrunk: one that grew for a change that was rolled back keeps its size, and holds the promised
        // amount.
        if resources.amount.disk_mb > before.amount.disk_mb {
            if !self.cells_of(id)?.is_empty() && !may_grow_in_use() {
                return Err("a disk in use can only grow where the agent has CAP_SYS_RESOURCE: destroy its cells first".to_owned());
            }
            let (disk, mb) = (disk_id(id)?, megabytes(resources.amount.disk_mb));
            let more = mb.saturating_sub(megabytes(before.amount.disk_mb));
            self.with_room_for_disk(more, || self.disks.grow(&disk, mb))?;
        }
        self.cells.group_resize(id, limits).map_err(said)?;
        self.held().change(|held| {
            held.give(&devices, id);
            if let Some(kept) = held.sandboxes.get_mut(&id) {
                (kept.devices, kept.amount) = (devices.clone(), resources.amount);
            }
        })?;
        self.inspect(place, &resources.devices, &[])
    }

    /// Returns the reason why its memory cannot shrink, if any: the kernel would kill processes in its cells.
    fn uses_more_memory(&self, id: AllocationId, before_mb: i64, wanted_mb: i64) -> Option<String> {
        if wanted_mb >= before_mb {
            return None;
        }
        let used_mb =
            i64::try_from(self.cells.group_look(id).memory_used.div_ceil(1 << 20)).unwrap_or(i64::MAX);
        (used_mb > wanted_mb).then(|| {
            format!("its cells use {used_mb} MiB of memory, but {wanted_mb} MiB were requested: stop something first")
        })
    }

    /// Destroys every cell in it, and releases its disk and control group. The data on the disk stays until it is wiped: a
    /// restarted allocation finds it again.
    pub(super) fn destroy(&self, place: &SandboxRef, devices: &[String]) -> Done<Findings> {
        let id = place.allocation_id;
        if let Some(kept) = self.held().get(id)
            && kept.incarnation > place.incarnation
        {
            return Err(format!("its sandbox has incarnation {}", kept.incarnation));
        }
        // A restarted allocation keeps its cells' state; a released one is wiped as a whole.
        let tear_down = |cell: &CellRef| self.tear_down(cell.cell_id, true);
        let cells = self.cells_of(id)?;
        let disk = disk_id(id)?;
        if self.disks.look(&disk).map_err(said)?.is_some_and(|look| look.read_only) {
            // Each cell keeps the disk in use for the previous one. With all of them stopped it can be repaired. Otherwise
            // it is detached with their files, which the wipe overwrites.
            let stopped: Vec<Done<()>> = cells.iter().map(tear_down).collect();
            if stopped.iter().any(Result::is_err)
                && let Err(error) = self.disks.repair(&disk)
            {
                tracing::error!(allocation = %id, %error, "a read-only disk cannot be repaired; it is detached as it is");
                self.disks.detach(&disk).map_err(said)?;
            }
        }
        cells.iter().try_for_each(tear_down)?;
        self.cells.group_remove(id).map_err(said)?;
        self.disks.detach(&disk).map_err(said)?;
        self.held().change(|held| {
            held.sandboxes.remove(&id);
        })?;
        self.inspect(place, devices, &[])
    }

    pub(super) fn wipe(&self, place: &SandboxRef, devices: &[String]) -> Done<Findings> {
        let id = place.allocation_id;
        for device in devices {
            match self.held().holder(device) {
                Some(holder) if holder == id => return Err(format!("{device} is still in its sandbox")),
                Some(holder) => return Err(format!("violation: {device} is in the sandbox of {holder}")),
                None => {}
            }
        }
        // While the sandbox exists its disk is in use, and only released devices are wiped.
        if self.held().get(id).is_none() {
            self.wipe_disk(&disk_id(id)?)?;
        }
        for device in devices {
            if self.held().held.wiped.contains(device) {
                continue;
            }
            match self.settings.wipe_device(device) {
                Ok(()) => self.held().change(|held| {
                    held.dirty.remove(device);
                    held.wiped.insert(device.clone());
                })?,
                // The inspection reports it as not wiped.
                Err(why) => tracing::error!(device, why, "a device could not be wiped"),
            }
        }
        self.inspect(place, devices, &[])
    }

    pub(super) fn inspect(&self, place: &SandboxRef, devices: &[String], cells: &[CellId]) -> Done<Findings> {
        let id = place.allocation_id;
        let disk_id = disk_id(id)?;
        let kept = self.held().get(id).cloned();
        let group = self.cells.group_look(id);
        let disk = self.disks.look(&disk_id).map_err(said)?;
        let dirty = |device: &&String| {
            let held = kept.as_ref().is_some_and(|kept| kept.devices.contains(*device));
            !held && !self.held().held.wiped.contains(*device)
        };
        let mut residue: Vec<String> = devices.iter().filter(dirty).cloned().collect();
        if kept.is_none() && disk.is_some() {
            residue.push(DISK.to_owned());
        }
        let mut findings = Findings { residue, ..Findings::default() };
        match kept {
            Some(kept) => {
                let size = disk.as_ref().map_or(0, |disk| i64::try_from(disk.size_mb).unwrap_or(i64::MAX));
                findings.present = group.present && disk.is_some_and(|disk| disk.mounted);
                findings.incarnation = kept.incarnation;
                findings.devices = kept.devices.into_iter().collect();
                // From the kernel, not from the record.
                findings.amount = Amount {
                    cpus: group.millicpus.and_then(|cpus| i64::try_from(cpus / 1000).ok()).unwrap_or(0),
                    memory_mb: group.memory.and_then(|bytes| i64::try_from(bytes >> 20).ok()).unwrap_or(0),
                    // The smallest disk is larger than zero.
                    disk_mb: size.min(kept.amount.disk_mb),
                };
            }
            None => {
                findings.left = self.left_of(id)?;
                for cell in cells {
                    findings.left.extend(self.look(*cell)?.left);
                }
                findings.checked = vec![
                    "processes of its control groups and namespaces".to_owned(),
                    "control groups in every hierarchy".to_owned(),
                    "mounts and loop devices".to_owned(),
                    "links, rules and network namespaces".to_owned(),
                    "folders of its cells".to_owned(),
                ];
            }
        }
        Ok(findings)
    }
}
