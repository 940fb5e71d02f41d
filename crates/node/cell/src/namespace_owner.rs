//! The user namespace that owns a namespace. The kernel reuses the number of a removed namespace, often at once. The owner
//! distinguishes the two, because a namespace keeps its owner, and so the owner's number, for as long as it exists.
#![expect(unsafe_code, reason = "rustix has no ioctl_ns")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `_IO(0xb7, 0x1)`, defined in ioctl_ns(2).
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// Returns the number of the user namespace that owns the namespace at `path`.
pub(crate) fn owner(path: &Path) -> io::Result<u64> {
    let namespace = File::open(path)?;
    // SAFETY: the request takes no argument and only reads the namespace behind a descriptor that is open until it returns.
    let found = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for this caller, and nothing else has it.
    let owner = unsafe { OwnedFd::from_raw_fd(found) };
    Ok(File::from(owner).metadata()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_owned_by_the_user_namespace_it_was_made_in() {
        let own = Path::new("/proc/self/ns");
        let user = std::fs::metadata(own.join("user")).unwrap().ino();
        assert_eq!(owner(&own.join("uts")).unwrap(), user);
        assert!(owner(Path::new("/proc/self/stat")).is_err(), "no namespace");
    }
}
