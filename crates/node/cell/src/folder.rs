//! Reads folders of cells from outside as an archive, without ever following a link of the cell.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use muster_ids::CellId;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use tar::{Builder, EntryType, Header};

use crate::cells::Cells;
use crate::check;
use crate::error::{CellError, CellResult, Doing, refused};
use crate::file::{as_reader_of, foreign, inside, root};

/// Maximum depth: a cell can nest folders without end.
const DEEPEST: usize = 100;

impl Cells {
    /// Writes a folder of a cell as a tar archive, with names relative to the folder. It includes regular files, folders and
    /// links as such, but no devices, pipes, sockets and nested mounts.
    pub fn folder_read(&self, cell: CellId, path: &str, output: &mut (dyn Write + Send)) -> CellResult<()> {
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        check::path(path)?;
        let record = self.record(cell)?;
        let init = record.init.as_ref().filter(|init| init.alive()).ok_or(CellError::NoCell(cell))?;
        as_reader_of(&record, || {
            let doing = || format!("read {path} in {cell}");
            let top = inside(&root(init)?, path, OFlags::RDONLY | OFlags::DIRECTORY).doing(doing)?;
            foreign(&top, path)?;
            let mut archive = Builder::new(output);
            add(&mut archive, &top, "", record.ids, 0)?;
            archive.finish().doing(doing)
        })
    }
}

/// Adds the content of an open folder, each entry by name and never through a link.
fn add(
    archive: &mut Builder<&mut (dyn Write + Send)>,
    folder: &OwnedFd,
    prefix: &str,
    ids: u32,
    depth: usize,
) -> CellResult<()> {
    let doing = || format!("read the folder {prefix:?}");
    if depth > DEEPEST {
        return refused(format!("{prefix} is more than {DEEPEST} folders deep"));
    }
    let mut names = Vec::new();
    for entry in Dir::read_from(folder).doing(doing)? {
        let entry = entry.doing(doing)?;
        // A name that is not UTF-8 cannot be represented on the other side.
        if let Ok(name) = entry.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    for name in names {
        let path = format!("{prefix}{name}");
        let doing = || format!("read {path}");
        let open = |flags: OFlags| {
            let here = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            rustix::fs::openat2(folder, name.as_str(), flags | OFlags::CLOEXEC, Mode::empty(), here)
        };
        // An entry removed during the read is skipped.
        let Ok(seen) = rustix::fs::statat(folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => {
                let Ok(file) = open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) else { continue };
                let file = File::from(file);
                let length = file.metadata().doing(doing)?.len();
                let mut header = header(&seen, ids, EntryType::Regular, length);
                // Exactly the declared length: a concurrent change must not shift the following entries.
                let text = std::io::Read::take(file, length);
                let padded = std::io::Read::take(std::io::Read::chain(text, std::io::repeat(0)), length);
                archive.append_data(&mut header, &path, padded).doing(doing)?;
            }
            FileType::Directory => {
                let Ok(inner) = open(OFlags::RDONLY | OFlags::DIRECTORY) else { continue };
                let mut header = header(&seen, ids, EntryType::Directory, 0);
                archive.append_data(&mut header, format!("{path}/"), std::io::empty()).doing(doing)?;
                add(archive, &inner, &format!("{path}/"), ids, depth + 1)?;
            }
            FileType::Symlink => {
                let Ok(target) = rustix::fs::readlinkat(folder, name.as_str(), Vec::new()) else { continue };
                let mut header = header(&seen, ids, EntryType::Symlink, 0);
                let target = target.to_string_lossy();
                archive.append_link(&mut header, &path, target.as_ref()).doing(doing)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn header(seen: &Stat, ids: u32, kind: EntryType, length: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(seen.st_mode & 0o7777);
    // Ids as in the cell.
    header.set_uid(u64::from(seen.st_uid.wrapping_sub(ids)));
    header.set_gid(u64::from(seen.st_gid.wrapping_sub(ids)));
    header.set_mtime(u64::try_from(seen.st_mtime).unwrap_or(0));
    header.set_size(length);
    header
}
