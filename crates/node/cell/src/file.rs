//! Reads and writes files in cells from outside, without ever following a link out of the cell.
//!
//! The kernel resolves every path inside the cell's root, and never through `/proc`'s links. The thread has the ids of the
//! cell's root, so that owners are right on mapped mounts too, and keeps only the capabilities to traverse directories and
//! change owners.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use muster_ids::CellId;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::cells::Cells;
use crate::check;
use crate::error::{CellError, CellResult, Doing, refused};
use crate::process::Process;
use crate::record::{Record, RootSource};

/// A file to write.
pub struct NewFile<'a> {
    /// Path in the cell.
    pub path: &'a str,
    /// Mode.
    pub mode: u32,
    /// Its owner in the cell.
    pub uid: u32,
    /// Its group in the cell.
    pub gid: u32,
    /// Content.
    pub content: &'a mut (dyn Read + Send),
}

/// Magic numbers of kernel file systems, which are neither written nor read.
const KERNEL: [i64; 4] = [0x9fa0, 0x6265_6572, 0x27_e0eb, 0x6367_7270];

impl Cells {
    /// Writes a file into a created or running cell, atomically. Missing parent folders are created.
    pub fn file_write(&self, cell: CellId, file: &mut NewFile<'_>) -> CellResult<()> {
        check::path(file.path)?;
        check::owner(file.uid)?;
        check::owner(file.gid)?;
        let record = self.record(cell)?;
        let init = record.init.as_ref().filter(|init| init.alive()).ok_or(CellError::NoCell(cell))?;
        write(init, record.ids, file)
    }

    /// Opens a regular file of a cell for reading.
    pub fn file_read(&self, cell: CellId, path: &str) -> CellResult<File> {
        check::path(path)?;
        let record = self.record(cell)?;
        let init = record.init.as_ref().filter(|init| init.alive()).ok_or(CellError::NoCell(cell))?;
        as_reader_of(&record, || {
            let doing = || format!("read {path} in {cell}");
            let root = root(init)?;
            // Checked before it is opened for reading: opening a device or a pipe can have side effects.
            let place = inside(&root, path, OFlags::PATH).doing(doing)?;
            plain(&place, path)?;
            let file =
                inside(&root, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).doing(doing)?;
            plain(&file, path)?;
            Ok(File::from(file))
        })
    }
}

pub(crate) fn write(init: &Process, ids: u32, file: &mut NewFile<'_>) -> CellResult<()> {
    as_root_of(ids, || {
        let path = file.path;
        let doing = || format!("write {path}");
        let Some((folder, name)) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else {
            return refused(format!("{path} is a folder, not a file"));
        };
        let root = root(init)?;
        let folder = folders(&root, folder)?;
        foreign(&folder, path)?;
        // Renaming onto a mount point of another namespace would remove that mount.
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Err(rustix::io::Errno::XDEV) = rustix::fs::openat2(&folder, name, look, Mode::empty(), beneath)
        {
            return refused(format!("{path} belongs to the platform, or is a mount of the cell's"));
        }
        // Written to a temporary file and renamed: open handles keep the old content, and a link is replaced, not followed.
        let beside = format!(".{}.muster", &name[..name.len().min(200)]);
        let _ = rustix::fs::unlinkat(&folder, &beside, AtFlags::empty());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let attempt = || -> std::io::Result<()> {
            let new = rustix::fs::openat(&folder, &beside, flags, Mode::from_raw_mode(0o600))?;
            rustix::fs::fchown(
                &new,
                Some(Uid::from_raw(ids + file.uid)),
                Some(Gid::from_raw(ids + file.gid)),
            )?;
            let mut new = File::from(new);
            std::io::copy(file.content, &mut new)?;
            // After the owner: changing the owner clears special bits.
            rustix::fs::fchmod(&new, Mode::from_raw_mode(file.mode))?;
            new.flush()?;
            rustix::fs::renameat(&folder, &beside, &folder, name)?;
            Ok(())
        };
        let mut attempt = attempt;
        attempt()
            .inspect_err(|_| {
                let _ = rustix::fs::unlinkat(&folder, &beside, AtFlags::empty());
            })
            .doing(doing)
    })
}

/// Opens the cell's root by a descriptor that is verified to be that cell's.
pub(crate) fn root(init: &Process) -> CellResult<OwnedFd> {
    let root = rustix::fs::openat(
        CWD,
        format!("/proc/{}/root", init.pid),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .doing(|| "open the root of a cell".to_owned())?;
    // Verified after opening: the PID was not reused before.
    if init.alive() { Ok(root) } else { refused("the cell is gone") }
}

pub(crate) fn inside(root: &OwnedFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(
        root,
        path,
        flags | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens a folder inside the root, and creates missing parts.
fn folders(root: &OwnedFd, path: &str) -> CellResult<OwnedFd> {
    let doing = || format!("open the folder {path}");
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut folder = inside(root, "/", flags).doing(doing)?;
    let mut done = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        done = format!("{done}/{part}");
        folder = match inside(root, &done, flags) {
            Err(rustix::io::Errno::NOENT) => {
                foreign(&folder, path)?;
                rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o755)).doing(doing)?;
                inside(root, &done, flags).doing(doing)?
            }
            result => result.doing(doing)?,
        };
    }
    Ok(folder)
}

fn plain(file: &OwnedFd, path: &str) -> CellResult<()> {
    foreign(file, path)?;
    let seen = rustix::fs::fstat(file).doing(|| format!("inspect {path}"))?;
    if FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile {
        Ok(())
    } else {
        refused(format!("{path} is not a regular file"))
    }
}

/// Reports whether a cell has this folder.
pub(crate) fn is_folder(record: &Record, path: &str) -> bool {
    let Some(init) = record.init.as_ref().filter(|init| init.alive() && check::path(path).is_ok()) else {
        return false;
    };
    let look =
        || inside(&root(init)?, path, OFlags::PATH | OFlags::DIRECTORY).doing(|| format!("inspect {path}"));
    as_reader_of(record, look).is_ok()
}

pub(crate) fn foreign(file: &OwnedFd, path: &str) -> CellResult<()> {
    let system = rustix::fs::fstatfs(file).doing(|| format!("inspect {path}"))?;
    if KERNEL.contains(&system.f_type) {
        return refused(format!("{path} belongs to the kernel and cannot be read or written like this"));
    }
    Ok(())
}

/// Capabilities of a cell's root over its own files; SYS_PTRACE opens /proc/PID/root.
fn rights_of_root() -> CapabilitySet {
    CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::SYS_PTRACE
}

/// Runs `act` on a thread with the ids of a cell's root and the minimal capabilities to act for it.
pub(crate) fn as_root_of<T: Send>(ids: u32, act: impl FnOnce() -> CellResult<T> + Send) -> CellResult<T> {
    with_rights(ids, rights_of_root(), act)
}

/// Like `as_root_of`, for reading. A capability of this thread applies to every file of the node, that of root in the cell
/// only to files with an owner of the cell. A cell of the node's directories has other files, which its root can read only
/// if they are world-readable, so the thread gets no such capability.
pub(crate) fn as_reader_of<T: Send>(
    record: &Record,
    act: impl FnOnce() -> CellResult<T> + Send,
) -> CellResult<T> {
    let rights = match &record.root {
        RootSource::Image { .. } => rights_of_root(),
        RootSource::Host { .. } => rights_of_root() - CapabilitySet::DAC_OVERRIDE,
    };
    with_rights(record.ids, rights, act)
}

fn with_rights<T: Send>(
    ids: u32,
    rights: CapabilitySet,
    act: impl FnOnce() -> CellResult<T> + Send,
) -> CellResult<T> {
    let become_root = || -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(ids), Gid::from_raw(ids));
        rustix::thread::set_keep_capabilities(true)?;
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        rustix::thread::set_capabilities(
            None,
            CapabilitySets { effective: rights, permitted: rights, inheritable: CapabilitySet::empty() },
        )
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            become_root().doing(|| "assume the ids of a cell".to_owned())?;
            act()
        });
        worker
            .join()
            .unwrap_or_else(|_| refused("the thread that writes into a cell failed; check the agent's log"))
    })
}
