//! Status of all cells at once, cheap enough to poll twice a second.

use muster_ids::CellId;
use muster_wire::cell::{CellRef, ServiceFindings};

use crate::cells::Cells;
use crate::error::{CellError, CellResult};
use crate::process::{self, Process};
use crate::record::{self, Phase};

/// The status of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellStatus {
    /// Cell and incarnation.
    pub cell: CellRef,
    /// Whether its first process is running. Nothing in its PID namespace outlives that process.
    pub alive: bool,
    /// Services; empty if the cell is dead.
    pub services: Vec<ServiceFindings>,
    /// Any other problem of the cell.
    pub message: Option<String>,
}

impl Cells {
    /// Returns the status of every cell that was started and is not being destroyed.
    pub fn observe(&self) -> CellResult<Vec<CellStatus>> {
        let mut found = Vec::new();
        let present = record::known(&self.settings.folder)?;
        for cell_id in self.vanished(&present)? {
            found.extend(self.observe_without_record(cell_id, "its record on the node is missing")?);
        }
        for cell_id in present {
            let record = match self.record(cell_id) {
                Ok(record) if record.phase == Phase::Started => record,
                // A cell being created or removed has no status.
                Ok(_) | Err(CellError::NoCell(_)) => continue,
                Err(_) => {
                    let why = "its record on the node cannot be read";
                    found.extend(self.observe_without_record(cell_id, why)?);
                    continue;
                }
            };
            let alive = record.init.as_ref().is_some_and(Process::alive);
            let rebooted = record.init.as_ref().is_some_and(|init| init.boot != process::boot());
            let services = if alive { self.service_findings(&record)? } else { Vec::new() };
            let cell =
                CellRef { allocation_id: record.allocation_id, cell_id, incarnation: record.incarnation };
            let message = (!alive && rebooted).then(|| "its node was rebooted".to_owned());
            found.push(CellStatus { cell, alive, services, message });
        }
        Ok(found)
    }

    /// Returns the status of a cell whose record is missing or cannot be read: otherwise its last status would count as
    /// confirmed.
    fn observe_without_record(&self, cell_id: CellId, why: &str) -> CellResult<Option<CellStatus>> {
        let Some(trace) = self.trace(cell_id)? else { return Ok(None) };
        let group = format!("{}/{cell_id}", self.group(trace.allocation_id));
        Ok(Some(CellStatus {
            cell: CellRef { allocation_id: trace.allocation_id, cell_id, incarnation: trace.incarnation },
            alive: !self.layout.processes(&group).is_empty(),
            services: Vec::new(),
            message: Some(why.to_owned()),
        }))
    }
}
