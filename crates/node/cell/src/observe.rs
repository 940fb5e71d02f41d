//! The status of all cells at once, cheap enough to be asked for twice a second.

use muster_wire::cell::{CellPlace, ServiceFindings};

use crate::cells::Cells;
use crate::error::CellResult;
use crate::process::{self, Process};
use crate::record::{self, Phase};

/// The status of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellStatus {
    /// Which.
    pub cell: CellPlace,
    /// Whether its first process runs. In one pid namespace nothing outlives that.
    pub alive: bool,
    /// Its services; none where it is dead.
    pub services: Vec<ServiceFindings>,
    /// Anything else that is wrong with it.
    pub message: Option<String>,
}

impl Cells {
    /// The status of every cell that was started and that nobody destroys.
    pub fn observe(&self) -> CellResult<Vec<CellStatus>> {
        let mut found = Vec::new();
        for cell_id in record::known(&self.settings.folder)? {
            // One that is being made or removed has no status yet, or any more; a record that cannot be read is found by a look.
            let Ok(record) = self.record(cell_id) else { continue };
            if record.phase != Phase::Started {
                continue;
            }
            let alive = record.init.as_ref().is_some_and(Process::alive);
            let rebooted = record.init.as_ref().is_some_and(|init| init.boot != process::boot());
            let services = if alive { self.service_findings(&record)? } else { Vec::new() };
            let cell =
                CellPlace { allocation_id: record.allocation_id, cell_id, incarnation: record.incarnation };
            let message = (!alive && rebooted).then(|| "its node was rebooted".to_owned());
            found.push(CellStatus { cell, alive, services, message });
        }
        Ok(found)
    }
}
