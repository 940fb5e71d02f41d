//! State of a simulated node, and the planned effect of each order: pure, so that every sequence of orders can be tested.
//!
//! A device of a sandbox keeps its tenant's data until it is wiped, and so does the disk. That is the purpose of the
//! simulation: it catches a platform that gives such a device to another allocation. The same allocation may get it back
//! unwiped, as it does on a restart.

use std::collections::{BTreeMap, BTreeSet};

use muster_agent::driver::CellStatus;
use muster_ids::{AllocationId, CellId, TaskId};
use muster_wire::act::{Act, CellCreate, CellTarget, Prepare, Resize};
use muster_wire::cell::{CellDeath, CellFindings, CellRef};
use muster_wire::task::{Amount, Findings, SandboxRef};
use serde::{Deserialize, Serialize};

use crate::cell::{ActPlan, CellWork, HeldCell};
use crate::journal::{Effect, Line};

/// Name of the disk in the residue.
const DISK: &str = "disk";

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    incarnation: i64,
    devices: BTreeSet<String>,
    amount: Amount,
    exclusive: bool,
    #[serde(default)]
    cells: BTreeMap<CellId, HeldCell>,
}

/// All state of a node that outlives its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holdings {
    sandboxes: BTreeMap<AllocationId, Held>,
    /// Devices that were in a sandbox and have not been wiped since, with the allocation.
    dirty: BTreeMap<String, AllocationId>,
    /// Allocations whose disk has not been wiped since they had a sandbox.
    dirty_disks: BTreeSet<AllocationId>,
    /// Number of effects.
    pub(crate) effects: u64,
    /// Number of reboots.
    #[serde(default)]
    pub(crate) boots: u64,
    /// Last effect, as the journal should have it: a crash may have cut it off there.
    pub(crate) last: Option<Line>,
}

/// Planned effect of an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// No effect: already done, or read-only.
    Nothing,
    /// A change to these devices.
    Change(Effect, BTreeSet<String>, Box<Holdings>),
    /// Refused in the current state.
    Refuse(String),
    /// The cell is dead.
    CellDead(String),
    /// Would give one tenant access to another's data or resources.
    Violation(String),
}

impl Holdings {
    pub(crate) fn sandboxes(&self) -> Vec<SandboxRef> {
        let place = |(id, held): (&AllocationId, &Held)| SandboxRef {
            allocation_id: *id,
            incarnation: held.incarnation,
        };
        self.sandboxes.iter().map(place).collect()
    }

    pub(crate) fn cells(&self) -> Vec<CellRef> {
        let cells = |(id, held): (&AllocationId, &Held)| {
            let allocation_id = *id;
            let cells = held.cells.iter();
            let cells = cells.map(|(id, cell)| CellRef {
                allocation_id,
                cell_id: *id,
                incarnation: cell.incarnation,
            });
            cells.collect::<Vec<_>>()
        };
        self.sandboxes.iter().flat_map(cells).collect()
    }

    /// Returns the state after a reboot of the machine. No effect is recorded: nothing was created or removed.
    pub(crate) fn rebooted(&self) -> Self {
        let mut next = self.clone();
        next.boots += 1;
        for cell in next.sandboxes.values_mut().flat_map(|held| held.cells.values_mut()) {
            cell.ended = Some("its node was rebooted".to_owned());
        }
        next
    }

    /// Returns the status of every cell: a simulated cell ends only by a reboot or a test.
    pub(crate) fn observe(&self) -> Vec<CellStatus> {
        let status = |cell: CellRef| {
            let held = self.sandboxes.get(&cell.allocation_id)?.cells.get(&cell.cell_id)?;
            let found = held.look();
            let message = held.ended.clone();
            Some(CellStatus { cell, alive: found.present, services: found.services, message })
        };
        self.cells().into_iter().filter_map(status).collect()
    }

    pub(crate) fn stop_self_fenced(&self) -> Vec<(CellRef, u32)> {
        let limit = |place: CellRef| {
            let cell = self.sandboxes.get(&place.allocation_id)?.cells.get(&place.cell_id)?;
            Some((place, cell.stop_after_partition?))
        };
        self.cells().into_iter().filter_map(limit).collect()
    }

    /// Returns the incarnation of an allocation's sandbox.
    pub(crate) fn incarnation(&self, allocation: AllocationId) -> Option<i64> {
        self.sandboxes.get(&allocation).map(|held| held.incarnation)
    }

    /// Returns the cell of an order, if exactly this incarnation exists.
    pub(crate) fn cell(&self, allocation: AllocationId, cell: CellTarget) -> Result<&HeldCell, String> {
        let held = self.sandboxes.get(&allocation);
        match held.and_then(|held| held.cells.get(&cell.cell_id)) {
            None => Err("the cell does not exist".to_owned()),
            Some(there) if there.incarnation != cell.incarnation => {
                Err(format!("the cell has incarnation {}", there.incarnation))
            }
            Some(there) => Ok(there),
        }
    }

    /// Returns the observations of a sandbox, of the requested devices and of a cell.
    pub(crate) fn look(
        &self,
        allocation: AllocationId,
        devices: &[String],
        cell: Option<CellId>,
    ) -> Findings {
        let held = self.sandboxes.get(&allocation);
        let unwiped = |device: &&String| {
            self.dirty.contains_key(*device) && held.is_none_or(|held| !held.devices.contains(*device))
        };
        let mut residue: Vec<String> = devices.iter().filter(unwiped).cloned().collect();
        if held.is_none() && self.dirty_disks.contains(&allocation) {
            residue.push(DISK.to_owned());
        }
        Findings {
            present: held.is_some(),
            incarnation: held.map_or(0, |held| held.incarnation),
            devices: held.map(|held| held.devices.iter().cloned().collect()).unwrap_or_default(),
            amount: held.map(|held| held.amount).unwrap_or_default(),
            residue,
            cell: cell.map(|cell| look_at_cell(held, cell)),
            ..Findings::default()
        }
    }

    /// Plans a task for an incarnation that is not stale.
    pub(crate) fn plan(&self, act: &Act, place: &SandboxRef, task: TaskId, told: Vec<String>) -> Plan {
        if let Some((cell, work)) = CellWork::from_act(act) {
            return self.plan_work(place, cell, work, task, told);
        }
        match act {
            Act::Prepare(act) => self.plan_prepare(place, act),
            Act::Resize(act) => self.plan_resize(place, act),
            Act::Destroy(_) => self.plan_destroy(place),
            Act::Wipe(act) => self.plan_wipe(place, &act.devices),
            Act::CellCreate(act) => self.plan_cell_create(place, act, told),
            Act::CellDestroy(act) => self.plan_cell_destroy(place, act.cell.cell_id, act.cell.incarnation),
            _ => Plan::Nothing,
        }
    }

    fn plan_prepare(&self, place: &SandboxRef, act: &Prepare) -> Plan {
        let wanted: BTreeSet<String> = act.resources.devices.iter().cloned().collect();
        match self.sandboxes.get(&place.allocation_id) {
            // Its amount may have changed since; a repeated order does not undo that.
            Some(held) if held.incarnation == place.incarnation && held.devices == wanted => {
                return Plan::Nothing;
            }
            Some(held) => {
                let (there, devices) = (held.incarnation, &held.devices);
                return Plan::Refuse(format!(
                    "its sandbox already exists: incarnation {there}, with {devices:?}"
                ));
            }
            None => {}
        }
        if let Some(why) = self.alone(place, act.exclusive).or_else(|| self.untouchable(place, &wanted)) {
            return Plan::Violation(why);
        }
        let held = Held {
            incarnation: place.incarnation,
            devices: wanted.clone(),
            amount: act.resources.amount,
            exclusive: act.exclusive,
            cells: BTreeMap::new(),
        };
        self.change(Effect::Prepared, wanted, |next| next.put(place.allocation_id, held))
    }

    fn plan_resize(&self, place: &SandboxRef, act: &Resize) -> Plan {
        let Some(held) = self.sandboxes.get(&place.allocation_id) else {
            return Plan::Refuse("its sandbox does not exist".to_owned());
        };
        if held.incarnation != place.incarnation {
            return Plan::Refuse(format!("its sandbox has incarnation {}", held.incarnation));
        }
        let (amount, devices) = (act.resources.amount, &act.resources.devices);
        let wanted: BTreeSet<String> = devices.iter().cloned().collect();
        if held.devices == wanted && held.amount == amount {
            return Plan::Nothing;
        }
        if let Some(why) = self.untouchable(place, &wanted) {
            return Plan::Violation(why);
        }
        let held = Held { devices: wanted.clone(), amount, ..held.clone() };
        self.change(Effect::Resized, wanted, |next| next.put(place.allocation_id, held))
    }

    pub(crate) fn plan_destroy(&self, place: &SandboxRef) -> Plan {
        match self.sandboxes.get(&place.allocation_id) {
            None => Plan::Nothing,
            Some(held) if held.incarnation > place.incarnation => {
                Plan::Refuse(format!("its sandbox has incarnation {}", held.incarnation))
            }
            Some(held) => self.change(Effect::Destroyed, held.devices.clone(), |next| {
                next.sandboxes.remove(&place.allocation_id);
            }),
        }
    }

    fn plan_wipe(&self, place: &SandboxRef, devices: &[String]) -> Plan {
        for device in devices {
            match self.holder(device) {
                Some(holder) if holder == place.allocation_id => {
                    return Plan::Refuse(format!("{device} is still in its sandbox"));
                }
                Some(holder) => return Plan::Violation(format!("{device} is in the sandbox of {holder}")),
                None => {}
            }
        }
        let dirty = |device: &&String| self.dirty.contains_key(*device);
        let devices: BTreeSet<String> = devices.iter().filter(dirty).cloned().collect();
        // While the sandbox exists its disk is in use, and only released devices are wiped.
        let disk = !self.sandboxes.contains_key(&place.allocation_id)
            && self.dirty_disks.contains(&place.allocation_id);
        if devices.is_empty() && !disk {
            return Plan::Nothing;
        }
        self.change(Effect::Wiped, devices.clone(), |next| {
            next.dirty.retain(|device, _| !devices.contains(device));
            if disk {
                next.dirty_disks.remove(&place.allocation_id);
            }
        })
    }

    fn plan_cell_create(&self, place: &SandboxRef, act: &CellCreate, told: Vec<String>) -> Plan {
        let Some(held) = self.sandboxes.get(&place.allocation_id) else {
            return Plan::Refuse("the sandbox of its allocation does not exist".to_owned());
        };
        match held.cells.get(&act.cell.cell_id) {
            Some(there) if there.incarnation == act.cell.incarnation => return Plan::Nothing,
            Some(there) => return Plan::Refuse(format!("incarnation {} still exists", there.incarnation)),
            None => {}
        }
        let made = HeldCell::new(act, told);
        self.change(Effect::CellCreated, BTreeSet::new(), |next| {
            next.put_cell(place.allocation_id, act.cell.cell_id, made);
        })
    }

    fn plan_work(
        &self,
        place: &SandboxRef,
        target: CellTarget,
        work: CellWork<'_>,
        task: TaskId,
        told: Vec<String>,
    ) -> Plan {
        let there = match self.cell(place.allocation_id, target) {
            Ok(there) => there,
            Err(why) => return Plan::Refuse(why),
        };
        match there.plan(work, task, told) {
            ActPlan::Nothing => Plan::Nothing,
            ActPlan::Refuse(why) => Plan::Refuse(why),
            ActPlan::Dead => Plan::CellDead(format!("{} is dead: its first process ended", target.cell_id)),
            ActPlan::Change(effect, cell) => self.change(effect, BTreeSet::new(), |next| {
                next.put_cell(place.allocation_id, target.cell_id, *cell);
            }),
        }
    }

    /// Ends services of a cell, all or the named one, as an injected fault. With a supervisor they run again at once.
    pub(crate) fn plan_end(
        &self,
        place: &SandboxRef,
        cell: CellId,
        service: Option<&str>,
        restarted: bool,
    ) -> Plan {
        let held = self.sandboxes.get(&place.allocation_id).and_then(|held| held.cells.get(&cell));
        let next = held.and_then(|held| if restarted { held.crash(service) } else { held.end(service) });
        match next {
            None => Plan::Nothing,
            Some(ended) => self.change(Effect::ServiceEnded, BTreeSet::new(), |next| {
                next.put_cell(place.allocation_id, cell, ended);
            }),
        }
    }

    /// Ends the first process of a cell, as an injected fault.
    pub(crate) fn plan_die(&self, place: &SandboxRef, cell: CellId) -> Plan {
        let held = self.sandboxes.get(&place.allocation_id).and_then(|held| held.cells.get(&cell));
        match held.and_then(HeldCell::die) {
            None => Plan::Nothing,
            Some(dead) => self.change(Effect::CellDied, BTreeSet::new(), |next| {
                next.put_cell(place.allocation_id, cell, dead);
            }),
        }
    }

    fn put_cell(&mut self, allocation: AllocationId, id: CellId, cell: HeldCell) {
        if let Some(held) = self.sandboxes.get_mut(&allocation) {
            held.cells.insert(id, cell);
        }
    }

    pub(crate) fn plan_cell_destroy(&self, place: &SandboxRef, cell: CellId, incarnation: i64) -> Plan {
        let held = self.sandboxes.get(&place.allocation_id);
        match held.and_then(|held| held.cells.get(&cell)) {
            None => Plan::Nothing,
            Some(there) if there.incarnation > incarnation => {
                Plan::Refuse(format!("it has incarnation {}", there.incarnation))
            }
            Some(_) => self.change(Effect::CellDestroyed, BTreeSet::new(), |next| {
                let held = next.sandboxes.get_mut(&place.allocation_id);
                held.expect("it was just looked up").cells.remove(&cell);
            }),
        }
    }

    fn change(&self, effect: Effect, devices: BTreeSet<String>, apply: impl FnOnce(&mut Self)) -> Plan {
        let mut next = self.clone();
        apply(&mut next);
        next.effects += 1;
        Plan::Change(effect, devices, Box::new(next))
    }

    /// Stores a sandbox, and marks its devices as dirty: a tenant has access from now on.
    fn put(&mut self, allocation: AllocationId, held: Held) {
        self.dirty.extend(held.devices.iter().map(|device| (device.clone(), allocation)));
        self.dirty_disks.insert(allocation);
        self.sandboxes.insert(allocation, held);
    }

    fn holder(&self, device: &str) -> Option<AllocationId> {
        self.sandboxes.iter().find(|(_, held)| held.devices.contains(device)).map(|(id, _)| *id)
    }

    /// Returns the reason why these devices must not be given to this allocation, if any.
    fn untouchable(&self, place: &SandboxRef, wanted: &BTreeSet<String>) -> Option<String> {
        wanted.iter().find_map(|device| {
            let other = |id: &AllocationId| *id != place.allocation_id;
            if let Some(holder) = self.holder(device).filter(other) {
                return Some(format!("{device} is in the sandbox of {holder}"));
            }
            let left = self.dirty.get(device).filter(|id| other(id))?;
            Some(format!("{device} has not been wiped since it was in the sandbox of {left}"))
        })
    }

    /// Returns the reason why exclusive use is violated, if any.
    fn alone(&self, place: &SandboxRef, exclusive: bool) -> Option<String> {
        let mut others = self.sandboxes.iter().filter(|(id, _)| **id != place.allocation_id);
        let (other, _) = others.find(|(_, held)| exclusive || held.exclusive)?;
        Some(if exclusive {
            format!("the whole node was requested, but {other} is on it")
        } else {
            format!("the whole node belongs to {other}")
        })
    }
}

/// Returns the counts of a simulated cell that is not running: nothing of it is alive.
pub(crate) fn counted_dead() -> CellDeath {
    CellDeath { boot_id: "simulated".to_owned(), processes: 0, namespaces: 0, mounts: 0 }
}

/// Returns the observations of a cell, or that it is missing.
fn look_at_cell(held: Option<&Held>, cell: CellId) -> CellFindings {
    match held.and_then(|held| held.cells.get(&cell)) {
        Some(there) => there.look(),
        None => CellFindings {
            checked: vec!["the records of the simulated node".to_owned()],
            death: Some(counted_dead()),
            ..CellFindings::default()
        },
    }
}

#[cfg(test)]
mod tests;
