//! Inspects a cell. Nothing here is answered from memory alone.

use std::os::unix::fs::MetadataExt;

use muster_ids::CellId;
use muster_wire::cell::CellFindings;

use crate::cells::Cells;
use crate::error::{CellError, CellResult};
use crate::process::Process;
use crate::record::{Phase, Record};

impl Cells {
    /// Returns the observations of a cell: whether it is running, its services and its devices, or its remains. Its address
    /// is not known here.
    pub fn look(&self, cell: CellId) -> CellResult<CellFindings> {
        let record = match self.place(cell).need_record(cell) {
            Ok(record) => record,
            Err(CellError::NoCell(_)) => {
                let remains = self.search(cell)?;
                let death = Some(remains.death());
                let (left, checked) = (remains.left, remains.checked);
                return Ok(CellFindings { left, checked, death, ..CellFindings::default() });
            }
            Err(error) => return Err(error),
        };
        let init = record.init.as_ref().filter(|init| init.alive());
        let Some(init) = init.filter(|_| matches!(record.phase, Phase::Made | Phase::Started)) else {
            let remains = self.search(cell)?;
            return Ok(CellFindings {
                incarnation: record.incarnation,
                death: Some(remains.death()),
                left: remains.left,
                checked: remains.checked,
                ..CellFindings::default()
            });
        };
        Ok(CellFindings {
            present: record.phase == Phase::Started,
            incarnation: record.incarnation,
            pid: init.pid,
            address: None,
            devices: self.devices(&record, init),
            services: self.service_findings(&record)?,
            checked: vec![
                format!("process {} with its start time", init.pid),
                "the processes, monitors and exit statuses of its services".to_owned(),
                "its device nodes and, where the kernel reports them, its device rules".to_owned(),
            ],
            left: Vec::new(),
            death: None,
        })
    }

    /// Returns the devices beside the harmless ones that the cell can open: it has the node, and the rules allow it.
    fn devices(&self, record: &Record, init: &Process) -> Vec<String> {
        let rules = self.layout.device_rules(&self.cell_group(record));
        let can_open = |major: u32, minor: u32, target: &str| {
            let node = std::fs::symlink_metadata(format!("/proc/{}/root{target}", init.pid)).ok();
            let there = node.is_some_and(|node| {
                (rustix::fs::major(node.rdev()), rustix::fs::minor(node.rdev())) == (major, minor)
            });
            there
                && rules.as_ref().is_none_or(|rules| {
                    rules.iter().any(|rule| rule.starts_with(&format!("c {major}:{minor} ")))
                })
        };
        let claimed =
            record.devices.iter().filter(|device| can_open(device.major, device.minor, &device.target));
        claimed.map(|device| device.source.display().to_string()).collect()
    }
}
