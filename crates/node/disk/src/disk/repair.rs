//! Repairs a disk that the kernel made read-only after an error.

use super::disks::Disks;
use super::program::run;
use super::{DiskId, Error};

impl Disks {
    /// Makes a read-only disk writable again: unmounts, checks and mounts it. If processes still use it, it is left as it
    /// is, and the error names them. A writable disk is left alone.
    pub fn repair(&self, id: &DiskId) -> Result<(), Error> {
        if !self.look(id)?.is_some_and(|look| look.read_only) {
            return Ok(());
        }
        self.unmount(id)?;
        let device = self.attach(id)?;
        // Mounting replays the journal anyway. The check repairs what it can, and its exit code reports even that as a
        // failure.
        if let Err(error) = run("e2fsck", &["-y".as_ref(), device.node().as_os_str()]) {
            tracing::warn!(%id, %error, "a disk was checked after an error");
        }
        self.reserve(id)?;
        self.mount(id, &device)
    }

    /// Returns the disks that are mounted read-only.
    pub fn read_only(&self) -> Result<Vec<DiskId>, Error> {
        let ours = |mount: &super::kernel::MountLine| {
            let name = mount.at.strip_prefix(&self.mounts).ok()?.to_str()?;
            mount.is_read_only().then(|| name.parse().ok()).flatten()
        };
        Ok(super::kernel::mounts()?.iter().filter_map(ours).collect())
    }
}
