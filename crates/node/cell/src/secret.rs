//! Secrets of a cell: files in an in-memory file system of its own, which exists only in the cell's mount namespace.
//!
//! The file system is created empty, the runtime mounts it into the cell read-only, and then it is detached from the node.
//! Only then are the secrets written, through a private descriptor, before any process runs in the cell. Secrets added to a
//! running cell are written through a second mount that is attached nowhere. So no path of the node ever leads to them, and
//! they end with the cell's processes in any case. Two alternatives were rejected: a mount by the runtime, because in a
//! cell's user namespace it cannot be excluded from swap, and files in the cell's private layer, because that is on disk.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use crate::document;
use crate::enter;
use crate::error::{CellResult, Doing, refused};
use crate::mount_attr;
use crate::process::Process;
use crate::record::{Place, Record};
use crate::root;

/// Path of the secrets in a cell.
pub(crate) const TARGET: &str = "/run/muster/secrets";
/// Maximum size of a secret.
pub(crate) const LONGEST: usize = 1 << 20;
/// Limits of size and number, including secrets added later. The cell cannot write there, so only actual files take space.
const SIZE: usize = 96 << 20;
const FILES: usize = 512;

/// A secret of a cell: a file of mode 0400.
#[derive(Clone, Copy)]
pub struct Secret<'a> {
    /// File name.
    pub file: &'a str,
    /// Its owner in the cell.
    pub uid: u32,
    /// Its group in the cell.
    pub gid: u32,
    /// Content.
    pub content: &'a [u8],
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The file system of a cell's secrets while the cell is being created: writable here, read-only in the cell.
pub(crate) struct Vault {
    root: OwnedFd,
}

impl Vault {
    /// Creates the empty file system where the runtime expects it.
    pub(crate) fn open(place: &Place, record: &Record) -> CellResult<Self> {
        let doing = || "create the file system for a cell's secrets".to_owned();
        let options = [
            // Identifies the file system in any mount namespace.
            ("source", record.cell_id.to_string()),
            ("size", SIZE.to_string()),
            ("nr_inodes", FILES.to_string()),
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
        // Kernels before 6.4 lack the option.
        let root = open(true).or_else(|_| open(false)).doing(doing)?;
        document::folder(&place.secrets(), 0o711)?;
        let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&root, "", CWD, place.secrets(), here).doing(doing)?;
        Ok(Self { root })
    }

    /// Detaches it from the node, so that only the cell has it, and writes the secrets.
    pub(crate) fn fill(self, place: &Place, ids: u32, secrets: &[Secret<'_>]) -> CellResult<()> {
        rustix::mount::unmount(place.secrets(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .doing(|| "unmount the file system of a cell's secrets".to_owned())?;
        secrets.iter().try_for_each(|secret| write(&self.root, ids, secret))
    }
}

/// Writes a secret to a temporary file and renames it, so that a reader gets the old or the new content.
fn write(root: &OwnedFd, ids: u32, secret: &Secret<'_>) -> CellResult<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // No secret's name begins with a dot.
    let beside = ".new";
    let attempt = || -> std::io::Result<()> {
        let _ = rustix::fs::unlinkat(root, beside, AtFlags::empty());
        let file = rustix::fs::openat(root, beside, flags, Mode::RUSR)?;
        let (uid, gid) = (Uid::from_raw(ids + secret.uid), Gid::from_raw(ids + secret.gid));
        rustix::fs::fchown(&file, Some(uid), Some(gid))?;
        // Regardless of the umask.
        rustix::fs::fchmod(&file, Mode::RUSR)?;
        File::from(file).write_all(secret.content)?;
        Ok(rustix::fs::renameat(root, beside, root, secret.file)?)
    };
    attempt().doing(|| format!("write the secret {}", secret.file))
}

/// Adds secrets to a running cell.
///
/// The file system is read-only in the cell, so a second, writable mount of it is made, attached nowhere and closed on
/// return. The kernel's list identifies it, not a path: the cell may have mounted another directory there.
pub(crate) fn add(record: &Record, init: &Process, secrets: &[Secret<'_>]) -> CellResult<()> {
    let doing = || "open the file system of a cell's secrets".to_owned();
    let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", init.pid)).doing(doing)?;
    let Some((device, point)) = find(&mounts, &record.cell_id.to_string()) else {
        return refused(
            "the cell has no file system for secrets: it was created by an older agent; restart it",
        );
    };
    let namespace = File::open(format!("/proc/{}/ns/mnt", init.pid)).doing(doing)?;
    // Verified after opening: the PID was not reused before.
    if !init.alive() {
        return refused("the cell is gone");
    }
    let root = enter::among_mounts(namespace.as_fd(), || {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        let root = rustix::mount::open_tree(CWD, &point, flags).doing(doing)?;
        let seen = rustix::fs::fstat(&root).doing(doing)?.st_dev;
        if device != format!("{}:{}", rustix::fs::major(seen), rustix::fs::minor(seen)) {
            return refused("something else is mounted at the cell's secrets; restart the cell");
        }
        mount_attr::writable(root.as_fd()).doing(doing)?;
        Ok(root)
    })?;
    secrets.iter().try_for_each(|secret| write(&root, record.ids, secret))
}

/// Returns the device and the mount point of the file system with this name.
fn find(mounts: &str, name: &str) -> Option<(String, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut source = source.split(' ');
        let ours = source.next() == Some("tmpfs") && source.next() == Some(name);
        let mut fields = mount.split(' ').skip(2);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        (ours && root == "/").then(|| (device.to_owned(), PathBuf::from(root::plain(point))))
    })
}
