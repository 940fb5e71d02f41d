//! Bringing about what the node should have beside its places: networks with everybody in them, names, and people.

use muster_ids::CellId;
use muster_wire::cell::{NetworkState, Wanted};

use super::{Done, Driver, said};
use crate::AgentError;

impl Driver {
    /// Everything is tried, so that one thing that does not work keeps no other back; what did not is said.
    pub(crate) fn follow(&self, wanted: &Wanted) -> Result<(), AgentError> {
        // Before the cells are listed: one that is being made meanwhile is in the list, or finds this.
        *self.wanted.lock().expect("no holder of this lock can panic") = wanted.clone();
        let mut faults = Vec::new();
        if let Err(error) = self.fabric.apply(&wanted.networks) {
            faults.push(error.to_string());
        }
        for cell in self.cells()? {
            if let Err(why) = self.introduce(cell.cell_id, wanted) {
                // One that is dead has nothing to be told, and will be told when it is made anew.
                if self.cells.look(cell.cell_id).is_ok_and(|seen| seen.present) {
                    faults.push(why);
                }
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(AgentError::Refused(faults.join("; "))) }
    }

    /// Gives a cell the names of its neighbours and the people that it should have.
    pub(super) fn introduce(&self, cell: CellId, wanted: &Wanted) -> Done<()> {
        let mine = |network: &&NetworkState| network.neighbours.iter().any(|member| member.cell_id == cell);
        if let Some(network) = wanted.networks.iter().find(mine)
            && let Some(hosts) = self.fabric.hosts(network.network_id).map_err(said)?
        {
            self.cells.write_hosts(cell, &hosts).map_err(said)?;
        }
        if let Some(people) = wanted.people_of(cell) {
            self.cells.write_people(cell, &people).map_err(said)?;
        }
        Ok(())
    }
}
