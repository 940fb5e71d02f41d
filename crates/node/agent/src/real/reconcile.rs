//! Reconciles the desired state of the node beside its sandboxes: networks with all their members, host names, and users.

use muster_ids::CellId;
use muster_wire::cell::{DesiredState, NetworkState};

use super::{Done, Driver, said};
use crate::AgentError;

impl Driver {
    /// Tries every part, so that one failure does not block the others, and returns all errors.
    pub(crate) fn reconcile(&self, desired: &DesiredState) -> Result<(), AgentError> {
        // Stored before the cells are listed: a cell being created is either in the list or reads this state.
        *self.desired.lock() = desired.clone();
        let mut faults = Vec::new();
        if let Err(error) = self.fabric.apply(&desired.networks) {
            faults.push(error.to_string());
        }
        for cell in self.cells()? {
            if let Err(why) = self.introduce(cell.cell_id, desired) {
                // A dead cell needs no update; it gets the state when it is recreated.
                if self.cells.look(cell.cell_id).is_ok_and(|seen| seen.present) {
                    faults.push(why);
                }
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(AgentError::Refused(faults.join("; "))) }
    }

    /// Writes the names of its neighbours and its users into a cell.
    pub(super) fn introduce(&self, cell: CellId, desired: &DesiredState) -> Done<()> {
        let mine = |network: &&NetworkState| network.neighbours.iter().any(|member| member.cell_id == cell);
        if let Some(network) = desired.networks.iter().find(mine)
            && let Some(hosts) = self.fabric.hosts(network.network_id).map_err(said)?
        {
            self.cells.write_hosts(cell, &hosts).map_err(said)?;
        }
        if let Some(people) = desired.people_of(cell) {
            self.cells.write_people(cell, &people).map_err(said)?;
        }
        Ok(())
    }
}
