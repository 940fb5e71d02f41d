//! Grows a disk in use, and shrinks a detached one.

use std::fs::OpenOptions;

use super::allocate::allocate;
use super::disks::{DiskState, Disks, MIB, Point, SMALLEST_MB};
use super::extent::zero;
use super::kernel::Loop;
use super::program::run;
use super::{DiskId, Error};

impl Disks {
    /// Grows the disk, transparently to its users. Only an agent without CAP_SYS_RESOURCE needs it unused. Idempotent.
    pub fn grow(&self, id: &DiskId, mb: u64) -> Result<u64, Error> {
        let mb = mb.max(SMALLEST_MB);
        let path = self.ready(id)?;
        let file = OpenOptions::new().write(true).open(&path).map_err(Error::at("open", &path))?;
        let has = file.metadata().map_err(Error::at("inspect", &path))?.len();
        if has > mb * MIB {
            return Err(Error::Size { id: id.clone(), has_mb: has / MIB, asked_mb: mb });
        }
        let mounted = self.mounted(id)?.is_some();
        if has < mb * MIB {
            if mounted && !may_resize_mounted() {
                self.let_go(id)?;
            }
            allocate(id, &file, &path, mb * MIB)?;
            file.sync_all().map_err(Error::at("sync", &path))?;
        }
        self.reach(Point::Lengthened);
        if mounted {
            let device = self.attach(id)?;
            self.fill(id, &device)?;
            self.mount(id, &device)?;
        }
        Ok(mb)
    }

    /// Shrinks the disk, which must be detached: a file system in use cannot shrink. The part that is cut off is overwritten
    /// first.
    pub fn shrink(&self, id: &DiskId, mb: u64) -> Result<u64, Error> {
        let mb = mb.max(SMALLEST_MB);
        let path = self.ready(id)?;
        self.refuse_if_used(id)?;
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(Error::at("open", &path))?;
        let has = file.metadata().map_err(Error::at("inspect", &path))?.len();
        if has < mb * MIB {
            return Err(Error::Size { id: id.clone(), has_mb: has / MIB, asked_mb: mb });
        }
        run("e2fsck", &["-f".as_ref(), "-p".as_ref(), path.as_os_str()])?;
        let size = format!("{mb}M");
        run("resize2fs", &[path.as_os_str(), size.as_ref()])?;
        zero(&file, mb * MIB, |_| ()).map_err(Error::at("overwrite", &path))?;
        file.sync_data().map_err(Error::at("sync", &path))?;
        file.set_len(mb * MIB).map_err(Error::at("shorten", &path))?;
        file.sync_all().map_err(Error::at("sync", &path))?;
        Ok(mb)
    }

    /// Extends the loop device and the file system to the whole file.
    pub(super) fn fill(&self, id: &DiskId, device: &Loop) -> Result<(), Error> {
        let path = self.ready(id)?;
        let size = std::fs::metadata(&path).map_err(Error::at("inspect", &path))?.len();
        let node = device.node();
        let sectors = std::fs::read_to_string(format!("/sys/block/{}/size", device.name));
        let sectors = sectors.map_err(Error::at("read the size of", &node))?;
        if sectors.trim().parse::<u64>().ok() != Some(size / 512) {
            run("losetup", &["--set-capacity".as_ref(), node.as_os_str()])?;
        }
        match run("resize2fs", &[node.as_os_str()]) {
            Ok(_) => Ok(()),
            Err(_) if !may_resize_mounted() => self.fill_unmounted(id, device),
            Err(error) => Err(error),
        }
    }

    /// Like `fill`, on a node that may not do it while it is mounted.
    fn fill_unmounted(&self, id: &DiskId, device: &Loop) -> Result<(), Error> {
        self.let_go(id)?;
        let node = device.node();
        run("e2fsck", &["-f".as_ref(), "-p".as_ref(), node.as_os_str()])?;
        run("resize2fs", &[node.as_os_str()])?;
        self.mount(id, device)
    }

    fn let_go(&self, id: &DiskId) -> Result<(), Error> {
        match self.unmount(id) {
            Err(Error::Busy { id, users }) => Err(Error::GrowInUse { id, users }),
            unmounted => unmounted,
        }
    }

    /// Returns the file of a complete disk.
    fn ready(&self, id: &DiskId) -> Result<std::path::PathBuf, Error> {
        match self.state(id)? {
            Some((DiskState::Ready, path)) => Ok(path),
            Some((state, _)) => {
                Err(Error::State { id: id.clone(), state, what: "its size cannot change now" })
            }
            None => Err(Error::Absent(id.clone())),
        }
    }
}

/// Reports whether the kernel lets this process resize a mounted file system. Root has the capability unless it was dropped.
fn may_resize_mounted() -> bool {
    const CAP_SYS_RESOURCE: u64 = 1 << 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|effective| effective & CAP_SYS_RESOURCE != 0)
}
