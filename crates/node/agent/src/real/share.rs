//! Directories that cells share across nodes.

use muster_cell::Share;
use muster_disk::SharedFiles;
use muster_ids::{Env, NetworkId};
use muster_wire::cell::{CellOrder, CellSpec};
use muster_wire::task::{Details, Findings, Thing, ThingKind};

use super::settings::Settings;
use super::{Done, Driver};
use crate::AgentError;

/// Opens the file system that the node shares with others, if it has one.
pub(super) fn open(settings: &Settings, env: &Env) -> Result<Option<SharedFiles>, AgentError> {
    let Some(folder) = &settings.shared_files else { return Ok(None) };
    // Only the first of all nodes names it, so any unique name will do.
    let id: String = env.bytes::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
    SharedFiles::open(folder, &id, settings.id_base).map(Some).map_err(AgentError::Refused)
}

impl Driver {
    /// Returns the identity of the file system shared with other nodes.
    pub(crate) fn shared_files(&self) -> Option<String> {
        self.shared.as_ref().map(|shared| shared.id().to_owned())
    }

    /// Returns the shared directory of a cell's network.
    pub(super) fn share_for(&self, order: &CellOrder, spec: &CellSpec) -> Done<Option<Share>> {
        if spec.shared.is_empty() {
            return Ok(None);
        }
        let shared = self.shared.as_ref().ok_or_else(none)?;
        let network =
            order.attachment.as_ref().ok_or_else(|| "it shares files, and is in no network".to_owned())?;
        let folder = shared.share(&network.network_id.to_string())?;
        Ok(Some(Share { folder, first_id: shared.first_id() }))
    }

    pub(super) fn share_remove(&self, details: &Details) -> Done<Findings> {
        let network = details.share.ok_or_else(|| "it is not said whose share".to_owned())?.to_string();
        let shared = self.shared.as_ref().ok_or_else(none)?;
        shared.remove(&network)?;
        let left = shared.left(&network)?;
        let checked = vec![format!("the directory of {network} on the shared file system {}", shared.id())];
        Ok(Findings { left, checked, ..Findings::default() })
    }

    /// Lists the resources on the shared file system. Other nodes find the same.
    pub(super) fn shares(&self) -> Done<Vec<Thing>> {
        let Some(shared) = &self.shared else { return Ok(Vec::new()) };
        let thing = |name: String| {
            let network_id = name.parse::<NetworkId>().ok()?;
            Some(Thing {
                kind: ThingKind::Share,
                name,
                allocation_id: None,
                cell_id: None,
                network_id: Some(network_id),
            })
        };
        Ok(shared.list()?.into_iter().filter_map(thing).collect())
    }
}

fn none() -> String {
    "this node shares no files with others: start its agent with --shared-files".to_owned()
}
