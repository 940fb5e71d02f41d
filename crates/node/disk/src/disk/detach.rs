//! Taking a disk away from its place.

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

/// How long somebody may be about to let go: a program that is just being started holds what its parent had open, for the
/// moment before it becomes itself.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

impl Disks {
    /// Unmounts the disk and gives its loop device back; its file stays. Where somebody still uses it, it says who, and
    /// leaves it. Repeated, it finds nothing to do.
    pub fn detach(&self, id: &DiskId) -> Result<(), Error> {
        let at = self.mount_point(id);
        self.unmount(id)?;
        let mut devices = self.devices(id)?;
        for device in &devices {
            // The kernel keeps the device until the last one lets it go, so what matters is what it shows afterwards.
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

    /// Unmounts the disk and leaves its loop device. Never lazily: a mount that is only hidden goes on writing while the file
    /// beneath it is wiped.
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

    /// The loop devices that have a file of this disk, whatever it is called by now.
    pub(super) fn devices(&self, id: &DiskId) -> Result<Vec<Loop>, Error> {
        let files = DiskState::ALL.map(|state| self.path(id, state));
        Ok(kernel::loops()?.into_iter().filter(|device| files.contains(&device.file)).collect())
    }

    /// Who has the disk mounted or attached must let it go first.
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
