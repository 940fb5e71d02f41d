//! Paths of a specification: absolute, without detours, and in a container not over what the platform mounts itself.

use crate::SpecError;

/// Maximum length of a path.
const LONGEST: usize = 1024;
/// Directories of the kernel and of the platform in every cell.
const RESERVED: [&str; 4] = ["/proc", "/sys", "/dev", "/run/muster"];

/// Device nodes and file systems that every cell has of its own.
const OWN_DEVICES: [&str; 5] = ["/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/console", "/dev/ptmx"];

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks a path on the node.
pub(crate) fn on_node(path: &str) -> Result<(), SpecError> {
    let parts = || path.split('/').skip(1);
    let fits = path.starts_with('/')
        && path.len() <= LONGEST
        && !path.chars().any(char::is_control)
        && parts().all(|part| !matches!(part, "" | "." | ".."));
    if fits { Ok(()) } else { Err(SpecError::Path(path.to_owned())) }
}

/// Checks a path in a container, except of a device node.
pub(crate) fn in_container(path: &str) -> Result<(), SpecError> {
    on_node(path)?;
    match RESERVED.iter().any(|folder| is_below(path, folder)) {
        false => Ok(()),
        true => Err(SpecError::Path(path.to_owned())),
    }
}

/// Checks the path of a device node in a container.
pub(crate) fn of_device(path: &str) -> Result<(), SpecError> {
    on_node(path)?;
    match path.starts_with("/dev/") && !OWN_DEVICES.iter().any(|own| is_below(path, own)) {
        true => Ok(()),
        false => Err(SpecError::Path(path.to_owned())),
    }
}
