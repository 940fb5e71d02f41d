//! Detaches a disk.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::busy::users;
use super::disks::Disks;
use super::kernel::{self, Loop};
use super::program::run;
use super::{DiskId, DiskState, Error};

/// Time for short-lived users to finish: a starting program briefly holds its parent's open files.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

impl Disks {
    /// Unmounts the disk and releases its loop device; its file stays. If it is still in use, the error names the users, and
    /// it is left attached. Idempotent.
    pub fn detach(&self, id: &DiskId) -> Result<(), Error> {
        let at = self.mount_point(id);
        self.unmount(id)?;
        let mut devices = self.devices(id)?;
        for device in &devices {
            // The kernel keeps the device until its last user closes it, so the state afterwards decides.
            run("losetup", &["--detach".as_ref(), device.node().as_os_str()])?;
        }
        let began = Instant::now();
        while !devices.is_empty() {
            if began.elapsed() > PATIENCE {
                return Err(Error::Busy { id: id.clone(), users: users(&devices, &at)? });
            }
            thread::sleep(PAUSE);
            devices = self.devices(id)?;
        }
        match fs::remove_dir(&at) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at("remove", &at)(error)),
            _ => Ok(()),
        }
    }

    /// Unmounts the disk and leaves its loop device. Never lazily: a hidden mount would continue to write while its file is
    /// wiped.
    pub(super) fn unmount(&self, id: &DiskId) -> Result<(), Error> {
        let at = self.mount_point(id);
        let began = Instant::now();
        while self.mounted(id)?.is_some() {
            match rustix::mount::unmount(&at, UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                Err(Errno::BUSY) if began.elapsed() < PATIENCE => thread::sleep(PAUSE),
                Err(Errno::BUSY) => {
                    let users = users(&self.devices(id)?, &at)?;
                    return Err(Error::Busy { id: id.clone(), users });
                }
                Err(error) => return Err(Error::at("unmount", &at)(error.into())),
            }
        }
        Ok(())
    }

    /// Returns the loop devices with a file of this disk, whatever its current name.
    pub(super) fn devices(&self, id: &DiskId) -> Result<Vec<Loop>, Error> {
        let files = DiskState::ALL.map(|state| self.path(id, state));
        Ok(kernel::loops()?.into_iter().filter(|device| files.contains(&device.file)).collect())
    }

    /// Fails if the disk is mounted or attached.
    pub(super) fn refuse_if_used(&self, id: &DiskId) -> Result<(), Error> {
        let devices = self.devices(id)?;
        let at = self.mount_point(id);
        let mut users = Vec::new();
        if self.mounted(id)?.is_some() {
            users.push(format!("the mount at {}: detach it", at.display()));
        }
        users.extend(devices.iter().map(|device| format!("the loop device {}: detach it", device.name)));
        if users.is_empty() { Ok(()) } else { Err(Error::Busy { id: id.clone(), users }) }
    }
}
