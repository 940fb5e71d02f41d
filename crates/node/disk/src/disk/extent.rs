//! Extents of a file that take space on the node.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::Errno;

const CHUNK: usize = 1 << 20;

/// Maximum listed places.
const TOLD: usize = 100;

/// Returns the next extent at or after this offset.
fn next(file: &File, from: u64) -> io::Result<Option<Range<u64>>> {
    let start = match seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end))
}

/// Overwrites every extent from this offset on with zeros. Calls `after` with the count after each, and returns the number
/// of extents and bytes.
pub(super) fn zero(file: &File, from: u64, mut after: impl FnMut(u64)) -> io::Result<(u64, u64)> {
    let zeros = vec![0; CHUNK];
    let (mut extents, mut bytes, mut at) = (0, 0, from);
    while let Some(part) = next(file, at)? {
        let mut place = part.start;
        while place < part.end {
            let length = (part.end - place).min(CHUNK as u64);
            let length = usize::try_from(length).unwrap_or(CHUNK);
            file.write_all_at(&zeros[..length], place)?;
            place += length as u64;
        }
        extents += 1;
        bytes += part.end - part.start;
        at = part.end;
        after(extents);
    }
    Ok((extents, bytes))
}

/// Reads every extent from the disk itself, and returns the number of bytes read and descriptions of nonzero ones.
pub(super) fn not_zero(file: &File) -> io::Result<(u64, Vec<String>)> {
    // Otherwise the page cache could answer instead of the disk. Dirty pages cannot be dropped, so they are flushed first.
    file.sync_data()?;
    fadvise(file, 0, None, Advice::DontNeed)?;
    let mut buffer = vec![0; CHUNK];
    let (mut read, mut told, mut at) = (0, Vec::new(), 0);
    while let Some(part) = next(file, at)? {
        let mut place = part.start;
        while place < part.end {
            let length = (part.end - place).min(CHUNK as u64);
            let length = usize::try_from(length).unwrap_or(CHUNK);
            let chunk = &mut buffer[..length];
            file.read_exact_at(chunk, place)?;
            read += length as u64;
            if let Some(first) = chunk.iter().position(|byte| *byte != 0) {
                let count = chunk.iter().filter(|byte| **byte != 0).count();
                let end = place + length as u64;
                let first = place + first as u64;
                told.push(format!("{count} bytes from {first} on, in {place} to {end}, are not zero"));
                if told.len() == TOLD {
                    told.push("and perhaps more".to_owned());
                    return Ok((read, told));
                }
            }
            place += length as u64;
        }
        at = part.end;
    }
    Ok((read, told))
}
