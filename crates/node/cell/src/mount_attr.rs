//! mount_setattr(2), which maps the ids of a mount and has no safe wrapper.
#![expect(unsafe_code, reason = "rustix has no mount_setattr")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes the detached mount `tree` writable.
pub(crate) fn writable(tree: BorrowedFd<'_>) -> io::Result<()> {
    let clear = libc::MOUNT_ATTR_RDONLY;
    change(tree, libc::mount_attr { attr_set: 0, attr_clr: clear, propagation: 0, userns_fd: 0 })
}

/// Sets the attributes `set` (`MOUNT_ATTR_…`) of the detached mount `tree`, and maps its ids by `namespace` if given.
pub(crate) fn set(tree: BorrowedFd<'_>, set: u64, namespace: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    if let Some(namespace) = namespace {
        attributes.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attributes.userns_fd = u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?;
    }
    change(tree, attributes)
}

fn change(tree: BorrowedFd<'_>, attributes: libc::mount_attr) -> io::Result<()> {
    // SAFETY: the path is a constant string that ends with a zero, the structure is initialised, lives until the call returns
    // and is passed with its own size; all descriptors are borrowed for as long.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(&attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
