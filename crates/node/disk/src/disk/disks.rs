//! Disks of a node.

use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::StatVfs;

use super::kernel::{self, MountLine};
use super::{DiskId, Error};

pub(super) const MIB: u64 = 1 << 20;

/// Minimum size. An allocation without a disk request still has cells, and each has a private layer over its image; a file
/// system of 64 MiB has about 55 for files: enough for configuration, sockets and logs.
pub(super) const SMALLEST_MB: u64 = 64;

/// Copy-on-write file systems: a wipe would leave the old blocks in place.
const COPY_ON_WRITE: [(u32, &str); 3] =
    [(0x9123_683e, "btrfs"), (0x2fc1_2fc1, "zfs"), (0xca45_1a4e, "bcachefs")];

/// Disks of a node.
#[derive(Clone)]
pub struct Disks {
    pub(super) folder: PathBuf,
    pub(super) mounts: PathBuf,
    reach: Arc<dyn Fn(Point) + Send + Sync>,
}

impl fmt::Debug for Disks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disks")
            .field("folder", &self.folder)
            .field("mounts", &self.mounts)
            .finish_non_exhaustive()
    }
}

/// A crash point between two effects. Tests stop there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The file exists and is empty.
    FileMade,
    /// The file is formatted.
    Formatted,
    /// The file has its final name.
    Named,
    /// A loop device is attached.
    Attached,
    /// It is mounted.
    Mounted,
    /// The file has its new size, but not its file system.
    Lengthened,
    /// It is marked for the wipe.
    Marked,
    /// This many extents are overwritten.
    Overwritten(u64),
    /// All of it is flushed, and not read back yet.
    Synced,
    /// It was read back.
    ReadAgain,
}

/// State of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskState {
    /// Being created; without data of a tenant.
    New,
    /// Complete.
    Ready,
    /// The wipe has started.
    Wiping,
    /// Overwritten and read back.
    Wiped,
}

impl DiskState {
    pub(super) const ALL: [Self; 4] = [Self::New, Self::Ready, Self::Wiping, Self::Wiped];

    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Ready => "disk",
            Self::Wiping => "wiping",
            Self::Wiped => "wiped",
        }
    }
}

impl fmt::Display for DiskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "unfinished",
            Self::Ready => "ready",
            Self::Wiping => "being wiped",
            Self::Wiped => "wiped",
        })
    }
}

/// Observations of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// State.
    pub state: DiskState,
    /// Whether it is mounted at its mount point.
    pub mounted: bool,
    /// Whether it is mounted read-only, as the kernel makes a file system after an error.
    pub read_only: bool,
    /// Size.
    pub size_mb: u64,
    /// Used space including the file system's metadata; known only while it is mounted.
    pub used_mb: Option<u64>,
    /// Space it takes on the node's own disk.
    pub taken_mb: u64,
}

impl Disks {
    /// Opens disks as files in `folder`, which survives a reboot, mounted under `run`, which need not.
    pub fn open(folder: impl AsRef<Path>, run: impl AsRef<Path>) -> Result<Self, Error> {
        let private = |path: &Path| {
            fs::create_dir_all(path).map_err(Error::at("make", path))?;
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(path, mode).map_err(Error::at("close", path))?;
            // Without links, as the kernel reports it.
            fs::canonicalize(path).map_err(Error::at("find", path))
        };
        let (folder, mounts) = (private(folder.as_ref())?, private(&run.as_ref().join("disks"))?);
        let system =
            rustix::fs::statfs(&folder).map_err(|error| Error::at("inspect", &folder)(error.into()))?;
        let magic = system.f_type as u32;
        if let Some((_, kind)) = COPY_ON_WRITE.into_iter().find(|(known, _)| *known == magic) {
            return Err(Error::Folder { folder: folder.display().to_string(), kind });
        }
        Ok(Self { folder, mounts, reach: Arc::new(|_| ()) })
    }

    /// Adds a callback for each crash point. For tests.
    pub fn reaching(self, reach: impl Fn(Point) + Send + Sync + 'static) -> Self {
        Self { reach: Arc::new(reach), ..self }
    }

    /// Returns the mount point of the disk.
    pub fn mount_point(&self, id: &DiskId) -> PathBuf {
        self.mounts.join(id.as_str())
    }

    /// Returns the observations of the disk, or none if there is no such disk.
    pub fn look(&self, id: &DiskId) -> Result<Option<Look>, Error> {
        let Some((state, path)) = self.state(id)? else { return Ok(None) };
        let facts = fs::metadata(&path).map_err(Error::at("inspect", &path))?;
        let mounted = self.mounted(id)?;
        let read_only = mounted.as_ref().is_some_and(MountLine::is_read_only);
        let used = match mounted {
            Some(mount) => {
                let system = rustix::fs::statvfs(&mount.at);
                let system: StatVfs =
                    system.map_err(|error| Error::at("inspect", &mount.at)(error.into()))?;
                Some((system.f_blocks.saturating_sub(system.f_bfree)) * system.f_frsize)
            }
            None => None,
        };
        Ok(Some(Look {
            state,
            mounted: used.is_some(),
            read_only,
            size_mb: facts.len() / MIB,
            used_mb: used.map(|used| used.div_ceil(MIB)),
            taken_mb: (facts.blocks() * 512).div_ceil(MIB),
        }))
    }

    pub(super) fn reach(&self, point: Point) {
        (self.reach)(point);
    }

    pub(super) fn path(&self, id: &DiskId, state: DiskState) -> PathBuf {
        self.folder.join(format!("{id}.{}", state.suffix()))
    }

    /// Returns the state of the disk, and its file. A crash can leave two files only while one is being created, and then
    /// the complete one counts.
    pub(super) fn state(&self, id: &DiskId) -> Result<Option<(DiskState, PathBuf)>, Error> {
        let mut states = DiskState::ALL;
        states.reverse();
        for state in states {
            let path = self.path(id, state);
            if path.try_exists().map_err(Error::at("search", &path))? {
                return Ok(Some((state, path)));
            }
        }
        Ok(None)
    }

    /// Returns the mount at the disk's mount point.
    pub(super) fn mounted(&self, id: &DiskId) -> Result<Option<MountLine>, Error> {
        let at = self.mount_point(id);
        // Mounts can be stacked; the last one is visible.
        Ok(kernel::mounts()?.into_iter().rfind(|mount| mount.at == at))
    }
}

/// Flushes a folder.
pub(super) fn sync_folder(folder: &Path) -> Result<(), Error> {
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(Error::at("sync", folder))
}
