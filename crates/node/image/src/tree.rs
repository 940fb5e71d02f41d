//! Record of an unpacked image, written when it was unpacked, to verify it later.
//!
//! The record has a line for every entry of the tree, in an order that depends only on names, without times. Its digest is
//! therefore the same on every node that unpacks the same image by the same rules.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fgetxattr, flistxattr, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::digest::Metered;
use crate::room::{Room, Roomed};
use crate::root::{names_in, open_directory};
use crate::{Digest, Error};

/// Maximum listed differences.
const TOLD: usize = 100;
/// Maximum depth of unpacked entries.
const DEPTH_MAX: usize = 4096;

/// Extent of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth<'p> {
    /// Names, kinds, owners, modes, sizes, and link targets.
    Facts,
    /// The same, with every byte of the files at these escaped paths.
    ContentOf(&'p BTreeSet<String>),
    /// The same, with every byte of all files.
    Content,
}

/// Records the tree; returns the digest of the record.
pub(crate) fn record(root: &Path, to: &Path, room: &mut Room) -> Result<Digest, Error> {
    let file = File::create_new(to).map_err(Error::at("make", to))?;
    let mut out = BufWriter::new(Roomed { inner: file, room });
    let mut write = |line: &Line| writeln!(out, "{} {}", line.rest, line.path);
    walk(root, Depth::Content, &mut write).map_err(Error::at("write", root))?;
    out.flush().map_err(Error::at("write", to))?;
    digest_of(to).map_err(Error::at("read", to))
}

/// Returns the differences between the tree and its record, one sentence each.
pub(crate) fn compare(
    root: &Path,
    record: &Path,
    digest: &Digest,
    depth: Depth<'_>,
) -> Result<Vec<String>, Error> {
    let found = digest_of(record).map_err(Error::at("read", record))?;
    if found != *digest {
        return Ok(vec![format!("the record of the tree is {found} and was {digest}")]);
    }
    let file = File::open(record).map_err(Error::at("open", record))?;
    let mut expected = BufReader::new(file).lines().map(|line| line.map(Line::parse)).peekable();
    let mut told = Vec::new();
    let mut see = |line: &Line| {
        while let Some(next) = expected.next_if(|next| before(next, line)) {
            told.push(format!("{} is gone", next?.path));
        }
        match expected.next_if(|next| matches!(next, Ok(next) if next.path == line.path)).transpose()? {
            Some(next) if next.matches(line, depth) => {}
            Some(next) => told.push(format!("{} is ({}) and was ({})", line.path, line.rest, next.rest)),
            None => told.push(format!("{} was added", line.path)),
        }
        if told.len() < TOLD { Ok(()) } else { Err(io::Error::from(io::ErrorKind::Interrupted)) }
    };
    match walk(root, depth, &mut see) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            told.push("and perhaps more".to_owned());
            return Ok(told);
        }
        Err(error) => return Err(Error::at("inspect", root)(error)),
    }
    for next in expected.take(TOLD) {
        told.push(format!("{} is gone", next.map_err(Error::at("read", record))?.path));
    }
    Ok(told)
}

/// One entry of the tree: its escaped path, and everything else.
struct Line {
    path: String,
    rest: String,
}

impl Line {
    fn parse(text: String) -> Self {
        // Seven fields before the path, without spaces.
        let at = text.match_indices(' ').nth(6).map_or(text.len(), |(at, _)| at);
        Self { path: text.get(at + 1..).unwrap_or_default().to_owned(), rest: text[..at].to_owned() }
    }

    fn matches(&self, other: &Self, depth: Depth<'_>) -> bool {
        let content = |rest: &str| rest.split(' ').nth(5).map(str::to_owned);
        match depth {
            Depth::Content => self.rest == other.rest,
            // Content that was not read counts as unchanged.
            Depth::Facts | Depth::ContentOf(_) => match (content(&self.rest), content(&other.rest)) {
                (Some(was), Some(is)) if is == "?" => self.rest == other.rest.replacen('?', &was, 1),
                _ => self.rest == other.rest,
            },
        }
    }
}

fn before(next: &io::Result<Line>, line: &Line) -> bool {
    let Ok(next) = next else { return true };
    next.path.split('/').cmp(line.path.split('/')) == Ordering::Less
}

fn digest_of(path: &Path) -> io::Result<Digest> {
    let mut reader = Metered::new(File::open(path)?, u64::MAX, String::new());
    io::copy(&mut reader, &mut io::sink())?;
    Ok(reader.finish().1)
}

/// Walks the tree: parents first, and names in the order of their escaped form.
fn walk(root: &Path, depth: Depth<'_>, see: &mut dyn FnMut(&Line) -> io::Result<()>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(root, flags, Mode::empty())?);
    see(&Line { path: String::new(), rest: of_directory(&directory)? })?;
    walk_in(&directory, "", 0, depth, see)
}

fn walk_in(
    directory: &File,
    path: &str,
    level: usize,
    depth: Depth<'_>,
    see: &mut dyn FnMut(&Line) -> io::Result<()>,
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
        let rest = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let child = open_directory(directory, &name)?;
                see(&Line { path: path.clone(), rest: of_directory(&child)? })?;
                walk_in(&child, &path, level + 1, depth, see)?;
                continue;
            }
            FileType::RegularFile => {
                let reads = match depth {
                    Depth::Facts => false,
                    Depth::ContentOf(paths) => paths.contains(&path),
                    Depth::Content => true,
                };
                of_file(directory, &name, reads)?
            }
            FileType::Symlink => {
                let to = readlinkat(directory, name.as_slice(), Vec::new())?;
                line("l", &stat, &Digest::of(to.as_bytes()).hex(), "-")
            }
            other => line(&format!("{other:?}"), &stat, "-", "-"),
        };
        see(&Line { path, rest })?;
    }
    Ok(())
}

fn of_directory(directory: &File) -> io::Result<String> {
    let mut stat = fstat(directory)?;
    stat.st_size = 0; // how large a directory is depends on the file system
    Ok(line("d", &stat, "-", &attributes(directory)?))
}

fn of_file(directory: &File, name: &[u8], reads: bool) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    let content = if reads {
        let mut reader = Metered::new(&file, u64::MAX, String::new());
        let mut buffered = BufReader::with_capacity(128 << 10, &mut reader);
        io::copy(&mut buffered, &mut io::sink())?;
        reader.finish().1.hex()
    } else {
        "?".to_owned()
    };
    Ok(line("f", &fstat(&file)?, &content, &attributes(&file)?))
}

fn line(kind: &str, stat: &rustix::fs::Stat, content: &str, attributes: &str) -> String {
    let mode = stat.st_mode & 0o7777;
    format!("{kind} {mode:04o} {} {} {} {content} {attributes}", stat.st_uid, stat.st_gid, stat.st_size)
}

/// Returns the digest over all `user.*` attributes, or a dash if there are none.
fn attributes(file: &File) -> io::Result<String> {
    let mut list = Vec::with_capacity(64 << 10);
    match flistxattr(file, rustix::buffer::spare_capacity(&mut list)) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP) => return Ok("-".to_owned()),
        Err(error) => return Err(error.into()),
    }
    let mut names: Vec<&[u8]> =
        list.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")).collect();
    if names.is_empty() {
        return Ok("-".to_owned());
    }
    names.sort_unstable();
    let mut text = String::new();
    for name in names {
        let mut value = Vec::with_capacity(64 << 10);
        fgetxattr(file, name, rustix::buffer::spare_capacity(&mut value))?;
        writeln!(text, "{}={}", name.escape_ascii(), Digest::of(&value))
            .expect("a text takes all that is written");
    }
    Ok(Digest::of(text.as_bytes()).hex())
}
