//! Settings of the real driver.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_cell::CheckLimits;
use muster_ids::NodeId;

use super::device::Node;
use crate::AgentError;
use crate::crash::CrashHook;
use crate::folder::Folder;

/// Settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Short key that separates this node's resources from those of another node on the same kernel; see [`key`].
    pub key: String,
    /// Directory that survives a reboot.
    pub folder: PathBuf,
    /// Directory that need not survive one.
    pub run: PathBuf,
    /// OCI layout with the images that cells may use.
    pub images: Option<PathBuf>,
    /// Directories of this machine that cells may use.
    pub host_directories: Vec<String>,
    /// Directory on the file system shared with other nodes.
    pub shared_files: Option<PathBuf>,
    /// Address at which other nodes reach this one.
    pub address: Ipv4Addr,
    /// GPUs, by identity.
    pub devices: BTreeMap<String, Node>,
    /// Limits of all checks on the node together.
    pub checks: CheckLimits,
    /// Part of the room for images that those of one project may use, in percent.
    pub project_images_percent: u8,
    /// First user id of the machine that cells may use.
    pub id_base: u32,
    /// Callback for crash points, for tests only.
    pub crash: CrashHook,
}

/// Returns the key of the resources created in this folder. It stays the same when the machine joins again as another node,
/// because earlier resources still exist and must be found.
pub fn key(folder: &Path, node: NodeId) -> Result<String, AgentError> {
    let folder = Folder::new(folder);
    folder.make()?;
    if let Some(key) = folder.read_document(KEY)? {
        return Ok(key);
    }
    let id = node.to_string();
    let key = id[id.len() - 6..].to_owned();
    folder.write_document(KEY, &key)?;
    Ok(key)
}

const KEY: &str = "key.json";

impl Settings {
    pub(super) fn for_cells(&self) -> muster_cell::Settings {
        let crash = self.crash.clone();
        muster_cell::Settings {
            folder: self.folder.join("cells"),
            run: self.run.join("cells"),
            cgroup_root: format!("muster/{}", self.key),
            checks: self.checks,
            id_base: self.id_base,
            tools: muster_cell::Tools::default(),
            logs: muster_cell::LogLimits::default(),
            reach: Arc::new(move |point| crash.reach(point)),
        }
    }

    pub(super) fn for_network(&self) -> muster_network::Settings {
        let crash = self.crash.clone();
        let (run, folder) = (self.run.join("networks"), self.folder.join("networks"));
        let mut settings = muster_network::Settings::new(run, folder, &self.key, self.address);
        settings.reach = Arc::new(move |point| crash.reach(point));
        settings
    }
}

/// Returns the missing prerequisites for real cells, one sentence each.
pub fn missing_tools() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root: namespaces, mounts and rules need it".to_owned());
    }
    let programs = [muster_cell::PROGRAMS, muster_network::PROGRAMS, muster_disk::PROGRAMS].concat();
    missing.extend(missing_programs(&programs, &SEARCHED));
    missing
}

/// Returns the programs of this machine that are too old for real cells, one sentence each. They can still remove existing
/// cells.
pub fn outdated_tools() -> Vec<String> {
    muster_cell::outdated_runc(&muster_cell::Tools::default()).into_iter().collect()
}

/// Search path for programs, independent of the environment.
const SEARCHED: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Returns the programs (name, Debian package, purpose) that are in none of the folders, each once.
fn missing_programs(programs: &[(&str, &str, &str)], folders: &[&str]) -> Vec<String> {
    let found = |name: &str| folders.iter().any(|folder| is_executable(&Path::new(folder).join(name)));
    let mut missing: Vec<&(&str, &str, &str)> = programs.iter().filter(|(name, ..)| !found(name)).collect();
    missing.sort_unstable();
    missing.dedup_by_key(|(name, ..)| *name);
    let sentence = |(name, package, purpose): &&(&str, &str, &str)| {
        format!("`{name}`, which {purpose} (Debian: apt-get install {package})")
    };
    missing.iter().map(sentence).collect()
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Returns the missing programs of this machine, one sentence each.
pub fn missing_of(programs: &[(&str, &str, &str)]) -> Vec<String> {
    missing_programs(programs, &SEARCHED)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::missing_programs;

    #[test]
    fn every_missing_program_is_listed_once_with_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let there = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        there("ip", 0o755);
        there("nft", 0o644);
        let programs = [
            ("ip", "iproute2", "creates links"),
            ("bridge", "iproute2", "fills tables"),
            ("nft", "nftables", "creates rules"),
            ("bridge", "iproute2", "fills tables"),
        ];
        assert_eq!(
            missing_programs(&programs, &[folder.path().to_str().unwrap()]),
            [
                "`bridge`, which fills tables (Debian: apt-get install iproute2)",
                "`nft`, which creates rules (Debian: apt-get install nftables)"
            ]
        );
    }
}
