//! The secrets of a cell: files in a file system of its own, in memory, that exists in the cell's mount namespace and nowhere else.
//!
//! The file system is made empty, the runtime puts it into the cell read-only, and then it is taken off the node's own list of
//! mounts. Only after that are the secrets written, through a descriptor that nobody else has, while nothing runs in the cell
//! yet. So no path of the node ever leads to them, and they end with the cell's processes, however those end. Two ways were
//! rejected: to let the runtime mount the file system, because in a cell's user namespace it cannot be kept from the swap, and to
//! write the files into the cell's private layer, because that is a disk.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags};

use crate::document;
use crate::error::{CellResult, Doing};
use crate::record::{Place, Record};

/// Where they are found in a cell.
pub(crate) const TARGET: &str = "/run/muster/secrets";
/// No secret is longer.
pub(crate) const LONGEST: usize = 1 << 20;
/// How a page is counted against the size of a file system in memory.
const PAGE: usize = 4_096;

/// A secret, as a cell is given it: a file of mode 0400.
#[derive(Clone, Copy)]
pub struct Secret<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// Its owner in the cell.
    pub uid: u32,
    /// Its group in the cell.
    pub gid: u32,
    /// What is in it.
    pub content: &'a [u8],
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The file system of a cell's secrets, while the cell is being made. Here it can be written to; in the cell it cannot.
pub(crate) struct Vault {
    root: OwnedFd,
}

impl Vault {
    /// Makes it, empty, where the runtime looks for it.
    pub(crate) fn open(place: &Place, record: &Record, secrets: &[Secret<'_>]) -> CellResult<Self> {
        let doing = || "make the file system for a cell's secrets".to_owned();
        let pages: usize = secrets.iter().map(|secret| secret.content.len().div_ceil(PAGE) + 1).sum();
        let options = [
            // By this name it is found, in whichever mount namespace it may be.
            ("source", record.cell_id.to_string()),
            ("size", ((pages + 1) * PAGE).to_string()),
            ("nr_inodes", (secrets.len() + 2).to_string()),
            ("mode", "0711".to_owned()),
            ("uid", record.ids.to_string()),
            ("gid", record.ids.to_string()),
        ];
        let open = |kept_from_swap: bool| -> rustix::io::Result<OwnedFd> {
            let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            for (key, value) in &options {
                rustix::mount::fsconfig_set_string(&context, *key, value)?;
            }
            if kept_from_swap {
                rustix::mount::fsconfig_set_flag(&context, "noswap")?;
            }
            rustix::mount::fsconfig_create(&context)?;
            let attributes = MountAttrFlags::MOUNT_ATTR_NODEV
                | MountAttrFlags::MOUNT_ATTR_NOSUID
                | MountAttrFlags::MOUNT_ATTR_NOEXEC;
            rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        };
        // Kernels before 6.4 do not know the option.
        let root = open(true).or_else(|_| open(false)).doing(doing)?;
        document::folder(&place.secrets(), 0o711)?;
        let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&root, "", CWD, place.secrets(), here).doing(doing)?;
        Ok(Self { root })
    }

    /// Takes it off the node, where only the cell has it then, and writes the secrets.
    pub(crate) fn fill(self, place: &Place, ids: u32, secrets: &[Secret<'_>]) -> CellResult<()> {
        rustix::mount::unmount(place.secrets(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .doing(|| "take the file system of a cell's secrets off the node".to_owned())?;
        for secret in secrets {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let write = || -> std::io::Result<()> {
                let file = rustix::fs::openat(&self.root, secret.file, flags, Mode::RUSR)?;
                let (uid, gid) = (Uid::from_raw(ids + secret.uid), Gid::from_raw(ids + secret.gid));
                rustix::fs::fchown(&file, Some(uid), Some(gid))?;
                // Whatever the umask says.
                rustix::fs::fchmod(&file, Mode::RUSR)?;
                File::from(file).write_all(secret.content)
            };
            write().doing(|| format!("write the secret {}", secret.file))?;
        }
        Ok(())
    }
}
