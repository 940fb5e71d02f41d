//! Members of a tar stream. The tar library parses the headers; the rest is read here, because the library reads long names
//! into memory whatever their size, and because a size in an extended header must apply to the content and to the position
//! of the next header alike: two readers that disagree about it get two different images.

use std::collections::BTreeMap;
use std::io::{self, Read};

use tar::{EntryType, Header};

use crate::error::refused;

const BLOCK: usize = 512;
/// Maximum length of an extended header or a long name; other tools have the same limit.
const EXTENSION_MAX: u64 = 1 << 20;

/// Kind of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File { size: u64 },
    Directory,
    Symlink { to: Vec<u8> },
    HardLink { to: Vec<u8> },
    Device,
    Fifo,
}

/// A member of a layer, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) facts: Facts,
}

/// Ownership and metadata of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds and nanoseconds.
    pub(crate) mtime: (i64, u32),
    /// Extended attributes by full name.
    pub(crate) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Reads members one by one; between two calls of `next`, it reads the content of the member.
pub(crate) struct Members<R> {
    input: R,
    left: u64,
    padding: u64,
}

/// Extended headers of the next member.
#[derive(Debug, Default)]
struct Extension {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<R: Read> Members<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, left: 0, padding: 0 }
    }

    /// Skips the rest of the last member and reads the next header.
    pub(crate) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut extension = Extension::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size().map_err(|_| refused("its size cannot be read"))?;
            match header.entry_type() {
                EntryType::GNULongName => extension.long_name = Some(until_nul(self.extension(size)?)),
                EntryType::GNULongLink => extension.long_link = Some(until_nul(self.extension(size)?)),
                EntryType::XHeader => extension.pax = records(&self.extension(size)?)?,
                EntryType::XGlobalHeader => {
                    self.extension(size)?;
                }
                _ => return self.member(&header, size, extension).map(Some),
            }
        }
    }

    fn member(&mut self, header: &Header, size: u64, extension: Extension) -> io::Result<Member> {
        let Extension { long_name, long_link, mut pax } = extension;
        let mut said = |key: &str| pax.remove(key.as_bytes()).filter(|value| !value.is_empty());
        let name = said("path").or(long_name).unwrap_or_else(|| header.path_bytes().into_owned());
        let link = said("linkpath").or(long_link);
        let link = || link.or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
        let size = said("size").map_or(Ok(size), |value| number(&value))?;
        let uid = said("uid").map_or_else(|| header.uid(), |value| number(&value));
        let gid = said("gid").map_or_else(|| header.gid(), |value| number(&value));
        let mtime = match said("mtime") {
            Some(value) => time(&value)?,
            None => (i64::try_from(header.mtime().unwrap_or(0)).unwrap_or(0), 0),
        };
        if pax.keys().any(|key| key.starts_with(b"GNU.sparse.")) {
            return Err(refused("it is a sparse file, which images cannot contain"));
        }
        let target = |link: Option<Vec<u8>>| match link {
            Some(link) if link.contains(&0) => Err(refused("its link target contains a NUL")),
            Some(link) if link.len() >= 4096 => Err(refused("its link target is longer than 4096 bytes")),
            Some(link) if !link.is_empty() => Ok(link),
            _ => Err(refused("its link target is empty")),
        };
        let kind = match header.entry_type() {
            // The oldest format has no type for directories.
            EntryType::Regular if header.as_bytes()[156] == 0 && name.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous => Kind::File { size },
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink { to: target(link())? },
            EntryType::Link => Kind::HardLink { to: target(link())? },
            EntryType::Char | EntryType::Block => Kind::Device,
            EntryType::Fifo => Kind::Fifo,
            EntryType::GNUSparse => return Err(refused("it is a sparse file, which images cannot contain")),
            other => {
                return Err(refused(format!("it is of the unknown type {:?}", other.as_byte() as char)));
            }
        };
        // Only files have content, as in other tools, whatever the size field contains.
        if let Kind::File { size } = kind {
            self.left = size;
            self.padding = size.wrapping_neg() % BLOCK as u64;
        }
        let attributes = pax
            .into_iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(b"SCHILY.xattr.")?.to_vec(), value)))
            .collect();
        let facts = Facts {
            mode: header.mode().map_err(|_| refused("its mode cannot be read"))? & 0o7777,
            uid: owner(uid)?,
            gid: owner(gid)?,
            mtime,
            attributes,
        };
        Ok(Member { name, kind, facts })
    }

    /// Returns the next header, or none at the end: two blocks of zeros, or the end of the stream.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let Some(block) = self.block()? else { return Ok(None) };
        if block.iter().all(|byte| *byte == 0) {
            return match self.block()? {
                Some(block) if block.iter().any(|byte| *byte != 0) => {
                    Err(refused("the archive continues after its end"))
                }
                _ => Ok(None),
            };
        }
        let header = Header::from_byte_slice(&block).clone();
        // The checksum counts its own eight bytes as spaces.
        let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        let expected = sum(&block[..148]) + 8 * 32 + sum(&block[156..]);
        match header.cksum() {
            Ok(found) if found == expected => Ok(Some(header)),
            _ => Err(refused("this is not a tar archive: the checksum of a header is wrong")),
        }
    }

    fn block(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(refused("the archive ends in the middle of a header")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(block))
    }

    fn extension(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > EXTENSION_MAX {
            return Err(refused(format!("an extended header of {size} bytes is too long")));
        }
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn skip(&mut self) -> io::Result<()> {
        let wanted = self.left.saturating_add(self.padding);
        (self.left, self.padding) = (0, 0);
        let skipped = io::copy(&mut (&mut self.input).take(wanted), &mut io::sink())?;
        if skipped < wanted { Err(refused("the archive ends in the middle of a member")) } else { Ok(()) }
    }
}

impl<R: Read> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        match self.input.read(&mut buffer[..most])? {
            0 => Err(refused("the archive ends in the middle of a member")),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

/// Parses the records of an extended header: `LENGTH key=value\n`, where the length counts all of it.
fn records(mut bytes: &[u8]) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut found = BTreeMap::new();
    while !bytes.is_empty() {
        let broken = || refused("its extended header cannot be read");
        let space = bytes.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
        let length = usize::try_from(number(&bytes[..space])?).map_err(|_| broken())?;
        let record =
            bytes.get(space + 1..length).ok_or_else(broken)?.strip_suffix(b"\n").ok_or_else(broken)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
        found.insert(record[..equals].to_vec(), record[equals + 1..].to_vec());
        bytes = &bytes[length..];
    }
    Ok(found)
}

fn number(bytes: &[u8]) -> io::Result<u64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(bytes).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    number.ok_or_else(|| refused("a number in its extended header cannot be read"))
}

/// Parses `seconds[.fraction]`, possibly before 1970.
fn time(bytes: &[u8]) -> io::Result<(i64, u32)> {
    let (before, bytes) = bytes.strip_prefix(b"-").map_or((false, bytes), |rest| (true, rest));
    let mut parts = bytes.splitn(2, |byte| *byte == b'.');
    let seconds = number(parts.next().unwrap_or_default())?;
    let seconds = i64::try_from(seconds).map_err(|_| refused("its time cannot be read"))?;
    let mut fraction = parts.next().unwrap_or_default().to_vec();
    fraction.resize(9, b'0');
    let nanoseconds = u32::try_from(number(&fraction)?).unwrap_or(0);
    match (before, nanoseconds) {
        (false, _) => Ok((seconds, nanoseconds)),
        (true, 0) => Ok((-seconds, 0)),
        (true, _) => Ok((-seconds - 1, 1_000_000_000 - nanoseconds)),
    }
}

/// Validates an owner. The largest number means "unchanged" to the kernel, so no file can have it.
fn owner(id: io::Result<u64>) -> io::Result<u32> {
    let id = id.ok().and_then(|id| u32::try_from(id).ok()).filter(|id| *id != u32::MAX);
    id.ok_or_else(|| refused("its owner is not a valid number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_headers_are_read_strictly() {
        let found = records(b"12 path=abc\n6 a=b\n").unwrap();
        assert_eq!(found[b"path".as_slice()], b"abc");
        assert_eq!(found[b"a".as_slice()], b"b");
        for broken in [
            &b"12 path=abc"[..],
            b"99 path=abc\n",
            b"0 a=b\n",
            b"2 a=b\n",
            b"-6 a=b\n",
            b"x a=b\n",
            b"5 ab\n",
        ] {
            assert!(records(broken).is_err(), "{}", broken.escape_ascii());
        }
    }

    #[test]
    fn times_have_fractions_and_may_lie_before_1970() {
        assert_eq!(time(b"12.5").unwrap(), (12, 500_000_000));
        assert_eq!(time(b"12").unwrap(), (12, 0));
        assert_eq!(time(b"-1.25").unwrap(), (-2, 750_000_000));
        assert_eq!(time(b"1.1234567891").unwrap(), (1, 123_456_789));
        assert!(time(b"").is_err() && time(b"1e9").is_err() && time(b"99999999999999999999").is_err());
    }
}
