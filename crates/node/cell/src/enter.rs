//! Runs code in the mount namespace of a cell, with the node's privileges.
#![expect(unsafe_code, reason = "rustix calls unshare(2) unsafe, because some of its flags are")]

use std::os::fd::BorrowedFd;

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::{CellResult, Doing, refused};

/// Runs `act` on a thread of its own in the mount namespace `namespace`.
pub(crate) fn among_mounts<T: Send>(
    namespace: BorrowedFd<'_>,
    act: impl FnOnce() -> CellResult<T> + Send,
) -> CellResult<T> {
    let enter = || -> rustix::io::Result<()> {
        // SAFETY: only the root and the working directory stop being shared with other threads, and descriptors stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
        rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Mount))
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            enter().doing(|| "enter the mount namespace of a cell".to_owned())?;
            act()
        });
        worker.join().unwrap_or_else(|_| {
            refused("the thread in a cell's mount namespace failed; check the agent's log")
        })
    })
}
