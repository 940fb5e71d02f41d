//! Directories that cells share across nodes.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use muster_cell::Share;
use muster_disk::{ShareError, SharedFiles, SharedFilesError};
use muster_ids::{Env, NetworkId};
use muster_wire::act::CellCreate;
use muster_wire::task::{Findings, NodeResource, NodeResourceKind, Refusal};

use super::settings::Settings;
use super::{Done, Driver};
use crate::AgentError;
use crate::driver::Undone;

/// Longest removal of a share in one attempt.
const LONGEST_REMOVAL: Duration = Duration::from_secs(600);
const NONE: &str = "this node shares no files with others: start its agent with --shared-files";

/// Opens the file system that the node shares with others, or says why it has none. Another node can damage the mark on it: that
/// disables shares here, and must not stop the agent for all others.
pub(super) fn open(settings: &Settings, env: &Env) -> Result<Done<SharedFiles>, AgentError> {
    let Some(folder) = &settings.shared_files else { return Ok(Err(NONE.to_owned())) };
    // Only the first node of all needs a name for it, and any that nobody else has will do.
    let id: String = env.bytes::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
    match SharedFiles::open(folder, &id, settings.id_base) {
        Err(damage @ SharedFilesError::Mark(_)) => {
            tracing::error!(%damage, "shares are disabled on this node: repair the mark, then restart the agent");
            Ok(Err(format!("shares are disabled on this node: {damage}")))
        }
        opened => opened.map(Ok).map_err(|error| AgentError::Refused(error.to_string())),
    }
}

impl Driver {
    /// Returns the identity of the file system shared with other nodes.
    pub(crate) fn shared_files(&self) -> Option<String> {
        self.shared.as_ref().ok().map(|shared| shared.id().to_owned())
    }

    /// Returns the shared directory of a cell's network.
    pub(super) fn share_for(&self, act: &CellCreate) -> Result<Option<Share>, Undone> {
        if act.spec.shared.is_empty() {
            return Ok(None);
        }
        let shared = self.shared.as_ref().map_err(Clone::clone)?;
        let network =
            act.attachment.as_ref().ok_or_else(|| "it shares files, but has no network".to_owned())?;
        let folder = shared.share(&network.network_id.to_string()).map_err(|error| match error {
            ShareError::Replaced(_) => Undone::because(Refusal::Unsupported, error),
            ShareError::Failed(why) => why.into(),
        })?;
        Ok(Some(Share { folder, first_id: shared.first_id() }))
    }

    pub(super) fn share_remove(&self, network: NetworkId, until: Timestamp) -> Done<Findings> {
        let network = network.to_string();
        let shared = self.shared.as_ref().map_err(Clone::clone)?;
        // Another node can add to it all the while, and other work of this node must go on.
        let left = Duration::try_from(until.duration_since(self.env.now())).unwrap_or_default();
        shared.remove(&network, Instant::now() + left.min(LONGEST_REMOVAL))?;
        let left = shared.left(&network)?;
        let checked = vec![format!("the directory of {network} on the shared file system {}", shared.id())];
        Ok(Findings { left, checked, ..Findings::default() })
    }

    /// Lists the resources on the shared file system. Other nodes find the same.
    pub(super) fn shares(&self) -> Done<Vec<NodeResource>> {
        let Ok(shared) = &self.shared else { return Ok(Vec::new()) };
        let thing = |name: String| {
            let network_id = name.parse::<NetworkId>().ok()?;
            Some(NodeResource {
                kind: NodeResourceKind::Share,
                name,
                allocation_id: None,
                cell_id: None,
                network_id: Some(network_id),
            })
        };
        let names = shared.list(|name| name.parse::<NetworkId>().is_ok())?;
        Ok(names.into_iter().filter_map(thing).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use super::*;

    fn settings(shared_files: Option<&Path>) -> Settings {
        Settings {
            project_images_percent: 50,
            checks: muster_cell::CheckLimits::new(1, 1_024).unwrap(),
            shared_files: shared_files.map(Path::to_owned),
            key: "k".to_owned(),
            folder: "/nowhere".into(),
            run: "/nowhere".into(),
            images: None,
            host_directories: Vec::new(),
            address: Ipv4Addr::LOCALHOST,
            devices: std::collections::BTreeMap::new(),
            id_base: 1_000_000,
            crash: crate::CrashHook::default(),
        }
    }

    #[test]
    fn a_damaged_mark_disables_shares_and_not_the_agent() {
        let (env, folder) = (Env::for_tests(1), tempfile::tempdir().unwrap());
        let opened = |path: Option<&Path>| open(&settings(path), &env);
        assert!(opened(None).unwrap().unwrap_err().contains("--shared-files"));
        assert!(opened(Some(folder.path())).unwrap().is_ok());
        std::fs::write(folder.path().join(".muster.json"), "{").unwrap();
        let why = opened(Some(folder.path())).unwrap().unwrap_err();
        assert!(why.starts_with("shares are disabled on this node: ") && why.contains("damaged"), "{why}");
        assert!(opened(Some(&folder.path().join("none"))).is_err(), "the operator's own mistake is refused");
    }
}
