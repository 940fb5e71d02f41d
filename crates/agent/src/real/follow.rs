//! Bringing about what the node should have beside its places: networks with everybody in them, names, and keys.

use muster_node_api::cell::Wanted;

use super::Driver;
use crate::AgentError;

impl Driver {
    /// Everything is tried, so that one thing that does not work keeps no other back; what did not is said.
    pub(crate) fn follow(&self, wanted: &Wanted) -> Result<(), AgentError> {
        let mut faults = Vec::new();
        if let Err(error) = self.fabric.apply(&wanted.networks) {
            faults.push(error.to_string());
        }
        let here = self.cells()?;
        for network in &wanted.networks {
            let hosts = match self.fabric.hosts(network.network_id) {
                Ok(Some(hosts)) => hosts,
                Ok(None) => continue,
                Err(error) => {
                    faults.push(error.to_string());
                    continue;
                }
            };
            let members = network
                .neighbours
                .iter()
                .filter(|member| here.iter().any(|cell| cell.cell_id == member.cell_id));
            for member in members {
                if let Err(error) = self.cells.write_hosts(member.cell_id, &hosts) {
                    faults.push(error.to_string());
                }
            }
        }
        for keys in wanted.keys.iter().filter(|keys| here.iter().any(|cell| cell.cell_id == keys.cell_id)) {
            if let Err(error) = self.cells.write_keys(keys.cell_id, &keys.authorized_keys) {
                faults.push(error.to_string());
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(AgentError::Refused(faults.join("; "))) }
    }
}
