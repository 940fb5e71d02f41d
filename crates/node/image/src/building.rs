//! A root under construction, with layers applied on top of each other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chownat,
    fchmod, fchown, fsetxattr, fstat, futimens, linkat, openat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::error::refused;
use crate::mark::Marks;
use crate::member::{Facts, Kind};
use crate::name::{Name, shown};
use crate::room::{ENTRY, Room};
use crate::root::{Place, Root, names_in, open_directory};
use crate::{LeftOut, Limits};

/// Only these extended attributes belong to the image: `security.*` and `trusted.*` are the node's, and file capabilities
/// have no effect in a cell, which gains no privileges by starting a program.
const KEPT_ATTRIBUTE: &[u8] = b"user.";

/// A root under construction, with layers applied on top of each other.
pub(crate) struct Building {
    root: Root,
    depth: usize,
    marks: Marks,
    /// Modification times of directories, set at the end because adding entries changes them.
    times: BTreeMap<Name, (i64, u32)>,
    pub(crate) left_out: LeftOut,
    buffer: Vec<u8>,
    room: Room,
}

impl Building {
    pub(crate) fn open(path: &Path, limits: &Limits) -> io::Result<Self> {
        Ok(Self {
            root: Root::open(path, limits.depth)?,
            depth: limits.depth,
            marks: Marks::default(),
            times: BTreeMap::new(),
            left_out: LeftOut::default(),
            buffer: vec![0; 128 << 10],
            room: Room::open(path, limits)?,
        })
    }

    /// Starts a layer: existing entries are from lower layers from now on.
    pub(crate) fn begin_layer(&mut self) {
        self.marks = Marks::default();
    }

    /// Creates a member at its name, replacing any existing entry.
    pub(crate) fn make(
        &mut self,
        name: &Name,
        kind: Kind,
        facts: &Facts,
        content: impl Read,
    ) -> io::Result<()> {
        let Some((parent, last)) = name.split() else { return self.make_root(name, &kind, facts) };
        // Missing parent directories are created: as many as its name has components.
        self.room.take(ENTRY * (parent.len() as u64 + 1))?;
        let place = self.root.find_or_make(parent)?;
        self.mark_way_to(&place)?;
        if kind == Kind::Directory {
            let directory = self.make_directory(&place, last, facts)?;
            self.marks.keep(fstat(&directory)?.st_ino);
            self.times.insert(name.clone(), facts.mtime);
        } else {
            self.times.remove(name);
            match kind {
                Kind::File { .. } => self.make_file(&place, last, facts, content)?,
                Kind::Symlink { to } => self.make_symlink(&place, last, &to, facts)?,
                Kind::HardLink { to } => self.make_hard_link(&place, last, &to)?,
                Kind::Device => {
                    self.left_out.devices += 1;
                    return self.remove(&place.fd, place.inode, last);
                }
                Kind::Fifo => {
                    self.left_out.fifos += 1;
                    return self.remove(&place.fd, place.inode, last);
                }
                Kind::Directory => unreachable!("directories were made above"),
            }
        }
        self.marks.put(place.inode, last);
        Ok(())
    }

    /// Hides the entry of lower layers with this name.
    pub(crate) fn hide(&mut self, name: &Name) -> io::Result<()> {
        let Some((parent, last)) = name.split() else { return Err(refused("it hides the root")) };
        match self.root.find(parent)? {
            Some(place) => self.prune(&place.fd, place.inode, last),
            None => Ok(()),
        }
    }

    /// Hides all entries of lower layers in this directory.
    pub(crate) fn hide_all_in(&mut self, name: &Name) -> io::Result<()> {
        match self.root.find(name.components())? {
            Some(place) => self.prune_all(&place.fd, place.inode),
            None => Ok(()),
        }
    }

    /// Sets the modification time of each directory, after the last change.
    pub(crate) fn finish(self) -> io::Result<LeftOut> {
        for (name, mtime) in &self.times {
            if let Ok(Some(place)) = self.root.find(name.components()) {
                futimens(open_directory(&place.fd, b".")?, &timestamps(*mtime))?;
            }
        }
        Ok(self.left_out)
    }

    fn make_root(&mut self, name: &Name, kind: &Kind, facts: &Facts) -> io::Result<()> {
        if *kind != Kind::Directory {
            return Err(refused("it would replace the root"));
        }
        let place = self.root.find_or_make(&[])?;
        let directory = open_directory(&place.fd, b".")?;
        self.times.insert(name.clone(), facts.mtime);
        self.settle(&directory, facts)
    }

    fn make_directory(&mut self, place: &Place, last: &[u8], facts: &Facts) -> io::Result<File> {
        let directory = match look(&place.fd, last)? {
            Some(stat) if kind(&stat) == FileType::Directory => open_directory(&place.fd, last)?,
            _ => {
                self.remove(&place.fd, place.inode, last)?;
                self.root.make_directory(place, last)?
            }
        };
        self.settle(&directory, facts)?;
        Ok(directory)
    }

    fn make_file(
        &mut self,
        place: &Place,
        last: &[u8],
        facts: &Facts,
        mut content: impl Read,
    ) -> io::Result<()> {
        self.remove(&place.fd, place.inode, last)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&place.fd, last, flags, Mode::RUSR | Mode::WUSR)?);
        loop {
            match content.read(&mut self.buffer)? {
                0 => break,
                read => {
                    self.room.take(read as u64)?;
                    file.write_all(&self.buffer[..read])?;
                }
            }
        }
        self.settle(&file, facts)?;
        Ok(futimens(&file, &timestamps(facts.mtime))?)
    }

    fn make_symlink(&mut self, place: &Place, last: &[u8], to: &[u8], facts: &Facts) -> io::Result<()> {
        self.remove(&place.fd, place.inode, last)?;
        symlinkat(to, &place.fd, last)?;
        let (uid, gid) = (Uid::from_raw(facts.uid), Gid::from_raw(facts.gid));
        chownat(&place.fd, last, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        utimensat(&place.fd, last, &timestamps(facts.mtime), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// Creates a hard link to an existing entry. Owner and mode stay the same.
    fn make_hard_link(&mut self, place: &Place, last: &[u8], to: &[u8]) -> io::Result<()> {
        let nothing = || refused(format!("it links to {}, which is not in the image", shown(to)));
        let target = Name::parse(to, self.depth)
            .map_err(|why| refused(format!("it links to {}: {why}", shown(to))))?;
        let (parent, target_last) = target.split().ok_or_else(|| refused("it links to the root"))?;
        let target_place = self.root.find(parent)?.ok_or_else(nothing)?;
        let stat = look(&target_place.fd, target_last)?.ok_or_else(nothing)?;
        if !matches!(kind(&stat), FileType::RegularFile | FileType::Symlink) {
            return Err(refused(format!("it links to {}, which is not a file", shown(to))));
        }
        let there = look(&place.fd, last)?;
        if there.is_some_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)) {
            return Ok(());
        }
        self.remove(&place.fd, place.inode, last)?;
        match linkat(&target_place.fd, target_last, &place.fd, last, AtFlags::empty()) {
            // The replaced entry was a directory that contained the target.
            Err(Errno::NOENT) => Err(nothing()),
            linked => Ok(linked?),
        }
    }

    /// Sets the owner, then the mode, because changing the owner clears set-user-id bits; then attributes.
    fn settle(&mut self, file: &File, facts: &Facts) -> io::Result<()> {
        fchown(file, Some(Uid::from_raw(facts.uid)), Some(Gid::from_raw(facts.gid)))?;
        fchmod(file, Mode::from_raw_mode(facts.mode))?;
        for (name, value) in &facts.attributes {
            if !name.starts_with(KEPT_ATTRIBUTE) || name.contains(&0) {
                self.left_out.attributes += 1;
                continue;
            }
            self.room.take(value.len() as u64)?;
            match fsetxattr(file, name.as_slice(), value, XattrFlags::empty()) {
                Ok(()) => {}
                // A file system without attributes, or with less space for them, can still hold the image.
                Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::INVAL) => {
                    self.left_out.attributes += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn mark_way_to(&mut self, place: &Place) -> io::Result<()> {
        if !self.marks.keeps(place.inode) {
            for inode in self.root.above(place.fd.as_fd())? {
                self.marks.keep(inode);
            }
        }
        Ok(())
    }

    /// Removes an entry of any layer.
    fn remove(&mut self, parent: impl AsFd, inode: u64, name: &[u8]) -> io::Result<()> {
        let Some(stat) = look(&parent, name)? else { return Ok(()) };
        if kind(&stat) == FileType::Directory {
            let directory = open_directory(&parent, name)?;
            for child in names_in(&directory)? {
                self.remove(&directory, stat.st_ino, &child)?;
            }
            unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
            self.marks.forget(stat.st_ino);
        } else {
            unlinkat(&parent, name, AtFlags::empty())?;
        }
        self.marks.take(inode, name);
        Ok(())
    }

    /// Removes an entry, except parts from the current layer.
    fn prune(&mut self, parent: impl AsFd, inode: u64, name: &[u8]) -> io::Result<()> {
        let Some(stat) = look(&parent, name)? else { return Ok(()) };
        if kind(&stat) == FileType::Directory && self.marks.keeps(stat.st_ino) {
            return self.prune_all(open_directory(&parent, name)?, stat.st_ino);
        }
        if self.marks.has(inode, name) { Ok(()) } else { self.remove(&parent, inode, name) }
    }

    fn prune_all(&mut self, directory: impl AsFd, inode: u64) -> io::Result<()> {
        for child in names_in(&directory)? {
            self.prune(&directory, inode, &child)?;
        }
        Ok(())
    }
}

/// Returns the metadata of an entry, without following a link.
fn look(parent: impl AsFd, name: &[u8]) -> io::Result<Option<Stat>> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn timestamps((seconds, nanoseconds): (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    }
}
