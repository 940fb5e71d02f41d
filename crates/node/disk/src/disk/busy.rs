//! Users that keep a disk from being detached.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Error;
use super::kernel::{Loop, parse_mounts};

/// Maximum listed users.
const TOLD: usize = 20;

/// Returns processes with open files or directories on these devices, and mounts of them or over them in any namespace. For
/// operators: users that come and go meanwhile may be missing.
pub(super) fn users(devices: &[Loop], at: &Path) -> Result<Vec<String>, Error> {
    let numbers: Vec<&str> = devices.iter().map(|device| device.device.as_str()).collect();
    let beneath = format!("{}/", at.display());
    let mut found = BTreeSet::new();
    let mut namespaces = BTreeSet::new();
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    let processes = Path::new("/proc");
    for entry in fs::read_dir(processes).map_err(Error::at("list", processes))?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let path = entry.path();
        if uses(&path, &numbers) {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            found.insert(format!("process {pid} ({})", name.trim()));
        }
        // One read for each mount namespace.
        let Ok(namespace) = fs::read_link(path.join("ns/mnt")) else { continue };
        let is_own = own.as_ref() == Some(&namespace);
        if !namespaces.insert(namespace) {
            continue;
        }
        for mount in parse_mounts(&fs::read(path.join("mountinfo")).unwrap_or_default()) {
            // The mount to be removed does not block itself.
            let of_it = numbers.contains(&mount.device.as_str()) && !(is_own && mount.at == at);
            if of_it || mount.options.contains(&beneath) {
                found.insert(format!("the mount at {} (of process {pid})", mount.at.display()));
            }
        }
    }
    Ok(found.into_iter().take(TOLD).collect())
}

/// Reports whether this process uses one of these devices.
fn uses(process: &Path, numbers: &[&str]) -> bool {
    let mut held: Vec<PathBuf> = ["cwd", "root", "exe"].map(|link| process.join(link)).to_vec();
    for folder in ["fd", "map_files"] {
        let entries = fs::read_dir(process.join(folder)).into_iter().flatten().flatten();
        held.extend(entries.map(|entry| entry.path()));
    }
    held.iter().filter_map(|link| fs::metadata(link).ok()).any(|facts| {
        let (major, minor) = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()));
        numbers.contains(&format!("{major}:{minor}").as_str())
    })
}
