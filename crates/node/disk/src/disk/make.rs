//! Creates a disk. Each step checks whether it is done, so that it can be repeated after a crash at any point.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::mount::MountFlags;

use super::allocate::allocate;
use super::disks::{DiskState, Disks, MIB, Point, SMALLEST_MB, sync_folder};
use super::kernel::{self, Loop};
use super::program::run;
use super::{DiskId, Error};

impl Disks {
    /// Creates the disk and mounts it; returns its size, at least 64 MiB. Idempotent.
    pub fn make(&self, id: &DiskId, mb: u64) -> Result<u64, Error> {
        let mb = mb.max(SMALLEST_MB);
        match self.state(id)? {
            None | Some((DiskState::New, _)) => self.make_file(id, mb)?,
            Some((DiskState::Ready, path)) => {
                let has_mb = fs::metadata(&path).map_err(Error::at("inspect", &path))?.len() / MIB;
                if has_mb != mb {
                    return Err(Error::Size { id: id.clone(), has_mb, asked_mb: mb });
                }
            }
            Some((state, _)) => {
                let what = "it is never mounted again; remove it after the wipe, and create another";
                return Err(Error::State { id: id.clone(), state, what });
            }
        }
        self.reserve(id)?;
        let device = self.attach(id)?;
        self.mount(id, &device)?;
        // Completes a growth that a crash interrupted.
        self.fill(id, &device)?;
        Ok(mb)
    }

    /// Creates the file, under a temporary name until it is complete.
    fn make_file(&self, id: &DiskId, mb: u64) -> Result<(), Error> {
        let path = self.path(id, DiskState::New);
        if path.exists() {
            fs::remove_file(&path).map_err(Error::at("remove", &path))?;
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(Error::at("make", &path))?;
        if let Err(error) = self.fill_file(id, &file, &path, mb) {
            // It has no data of a tenant, and its space is needed.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        file.sync_all().map_err(Error::at("sync", &path))?;
        self.reach(Point::Formatted);
        let ready = self.path(id, DiskState::Ready);
        fs::rename(&path, &ready).map_err(Error::at("name", &ready))?;
        sync_folder(&self.folder)?;
        self.reach(Point::Named);
        Ok(())
    }

    fn fill_file(&self, id: &DiskId, file: &File, path: &Path, mb: u64) -> Result<(), Error> {
        allocate(id, file, path, mb * MIB)?;
        self.reach(Point::FileMade);
        format(path)?;
        // Formatting releases blocks that it only zeroes.
        allocate(id, file, path, mb * MIB)
    }

    /// Returns the loop device of the file, attached if needed.
    pub(super) fn attach(&self, id: &DiskId) -> Result<Loop, Error> {
        let path = self.path(id, DiskState::Ready);
        let mut devices = kernel::loops_of(&path)?;
        if devices.is_empty() {
            run("losetup", &["--find".as_ref(), "--nooverlap".as_ref(), path.as_os_str()])?;
            devices = kernel::loops_of(&path)?;
        }
        let device = devices.pop().ok_or_else(|| {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            Error::at("find the loop device of", &path)(gone)
        })?;
        if let Err(error) = kernel::never_discard(&device) {
            tracing::warn!(%id, device = device.name, %error, "discards of this loop device could not be turned off");
        }
        self.reach(Point::Attached);
        Ok(device)
    }

    /// Mounts without devices and setuid: overlays over it and binds of it have flags of their own, cells gain no privileges
    /// by starting a program, and neither should work under this path on the node. Programs may be executed, because a
    /// tenant's state may contain some. No discards. Inode tables need no zeroing: the file reads as zeros from the start,
    /// and the wipe would have to overwrite them.
    pub(super) fn mount(&self, id: &DiskId, device: &Loop) -> Result<(), Error> {
        let at = self.mount_point(id);
        match self.mounted(id)? {
            Some(mount) if mount.device == device.device => return Ok(()),
            Some(mount) => {
                let users = vec![format!("a foreign mount of {} at {}", mount.device, at.display())];
                return Err(Error::Busy { id: id.clone(), users });
            }
            None => {}
        }
        fs::create_dir_all(&at).map_err(Error::at("make", &at))?;
        fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).map_err(Error::at("close", &at))?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
        let options = c"noinit_itable,nodiscard,errors=remount-ro";
        let mounted = rustix::mount::mount(device.node(), &at, "ext4", flags, Some(options));
        mounted.map_err(|error| Error::at("mount", &at)(error.into()))?;
        self.reach(Point::Mounted);
        Ok(())
    }
}

/// Formats ext4 for a file that reads as zeros. No blocks are reserved for root, which does not fill up this disk. It has a
/// journal, because a tenant's state must survive a crash of the node; the smallest one on small disks. Nothing is written
/// that reads as zero anyway, so a terabyte takes hardly longer than a gigabyte.
fn format(path: &Path) -> Result<(), Error> {
    let mut arguments: Vec<&std::ffi::OsStr> =
        ["-q", "-F", "-b", "4096", "-m", "0"].into_iter().map(AsRef::as_ref).collect();
    let size = File::open(path).and_then(|file| file.metadata()).map_err(Error::at("inspect", path))?.len();
    if size < 512 * MIB {
        arguments.extend(["-J", "size=4"].map(std::ffi::OsStr::new));
    }
    arguments.extend(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"].map(std::ffi::OsStr::new));
    arguments.push(path.as_os_str());
    run("mkfs.ext4", &arguments).map(|_| ())
}
