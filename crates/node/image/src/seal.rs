//! The seal of an unpacked image: the metadata of everything in it when it was intact, so that a start can quickly detect
//! any later change.
//!
//! Each line has the inode, the change time (`ctime`) and the size. Every write through the file system changes that time,
//! even if size and `mtime` are restored; reads, use as a lower layer, mapped owners and renames of a parent folder do not.
//! Only entries that differ are read and compared with the tree's record, byte by byte. Reading everything at every start
//! was rejected: for an image of 25 GB that takes longer than the rest of a start. Checking 20,000 files took 38 ms in a
//! release build and 77 ms in a test build, measured on two cores in memory.
//!
//! Changes that bypass the file system are not detected here: bit rot, or root writing to its device.
//! [`crate::Images::verify_tree`] reads every byte and finds those too.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, statat};

use crate::room::{Room, Roomed};
use crate::root::{names_in, open_directory};
use crate::{Digest, Error};

/// Change times are no finer than a tick of the kernel's clock, at most four milliseconds: a change within the tick of its
/// creation is invisible. This much time must pass between the last change and the first read of contents.
pub(crate) const TICK: std::time::Duration = std::time::Duration::from_millis(20);
/// Maximum depth of unpacked entries.
const DEPTH_MAX: usize = 4096;

/// Result of comparing the seal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Unmodified.
    Whole,
    /// These entries were touched, added or removed; by escaped path. Whether they differ is not known yet.
    Touched(BTreeSet<String>),
    /// There is no seal, or one of another tree.
    Unsealed,
}

/// Writes a seal. The digest of the tree's record binds the two together.
pub(crate) fn write(root: &Path, to: &Path, tree: &Digest, room: &mut Room) -> Result<(), Error> {
    let mut write = || {
        let mut out = BufWriter::new(Roomed { inner: File::create(to)?, room });
        writeln!(out, "{tree}")?;
        walk(root, &mut |path, stat| writeln!(out, "{} {path}", facts(stat)))?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.inner.sync_all()
    };
    write().map_err(Error::at("write", to))
}

/// Compares the tree with its seal, without opening a file.
pub(crate) fn look(root: &Path, seal: &Path, tree: &Digest) -> Result<Look, Error> {
    let file = match File::open(seal) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Look::Unsealed),
        Err(error) => return Err(Error::at("open", seal)(error)),
    };
    let mut lines = BufReader::new(file).lines();
    if !matches!(lines.next(), Some(Ok(first)) if first == tree.to_string()) {
        return Ok(Look::Unsealed);
    }
    let mut expected = lines.map(|line| line.map(Line::parse)).peekable();
    let mut touched = BTreeSet::new();
    let mut see = |path: &str, stat: &Stat| {
        while let Some(gone) = expected.next_if(|next| before(next, path)) {
            touched.insert(gone?.path);
        }
        match expected.next_if(|next| matches!(next, Ok(next) if next.path == path)).transpose()? {
            Some(line) if line.facts == facts(stat) => {}
            _ => {
                touched.insert(path.to_owned());
            }
        }
        Ok(())
    };
    walk(root, &mut see).map_err(Error::at("inspect", root))?;
    for gone in expected {
        touched.insert(gone.map_err(Error::at("read", seal))?.path);
    }
    Ok(if touched.is_empty() { Look::Whole } else { Look::Touched(touched) })
}

struct Line {
    facts: String,
    path: String,
}

impl Line {
    fn parse(mut text: String) -> Self {
        // Four numbers before the path, each followed by a space.
        let at = text.match_indices(' ').nth(3).map_or(text.len(), |(at, _)| at);
        let path = text.get(at + 1..).unwrap_or_default().to_owned();
        text.truncate(at);
        Self { facts: text, path }
    }
}

fn facts(stat: &Stat) -> String {
    // A directory's size depends on its history, and its change time is more precise.
    let size = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory { 0 } else { stat.st_size };
    format!("{} {} {} {size}", stat.st_ino, stat.st_ctime, stat.st_ctime_nsec)
}

fn before(next: &io::Result<Line>, path: &str) -> bool {
    let Ok(next) = next else { return true };
    next.path.split('/').cmp(path.split('/')) == Ordering::Less
}

/// Walks the tree in the order of the tree's record.
fn walk(root: &Path, see: &mut dyn FnMut(&str, &Stat) -> io::Result<()>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(root, flags, Mode::empty())?);
    see("", &fstat(&directory)?)?;
    walk_in(&directory, "", 0, see)
}

fn walk_in(
    directory: &File,
    path: &str,
    level: usize,
    see: &mut dyn FnMut(&str, &Stat) -> io::Result<()>,
) -> io::Result<()> {
    if level > DEPTH_MAX {
        return Err(io::Error::other(format!("{path} is deeper than {DEPTH_MAX} directories")));
    }
    let names = names_in(directory)?;
    let mut names: Vec<_> = names.into_iter().map(|name| (name.escape_ascii().to_string(), name)).collect();
    names.sort();
    for (escaped, name) in names {
        let path = format!("{path}/{escaped}");
        let stat = statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
        see(&path, &stat)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            walk_in(&open_directory(directory, &name)?, &path, level + 1, see)?;
        }
    }
    Ok(())
}
