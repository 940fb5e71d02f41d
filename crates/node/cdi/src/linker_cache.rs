//! The dynamic linker's cache of a cell (`/etc/ld.so.cache`): the image's own, with the libraries of its devices before.
//!
//! glibc looks libraries up there by name. Running the image's or the node's `ldconfig` on a tenant's files as root is what
//! attacks on container tool kits used; the format is small, so the cache is written here. Other C libraries ignore the file.

use std::cmp::Ordering;

use crate::SpecError;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// Maximum size of an image's cache, and of its number of entries.
const LONGEST: usize = 8 << 20;
const MOST_ENTRIES: usize = 65_536;

/// A library in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Name by which programs ask for it.
    pub name: String,
    /// Path in the cell.
    pub path: String,
}

/// Flags of a library of this machine's architecture: ELF for glibc, 64 bits.
fn flags() -> i32 {
    if cfg!(target_arch = "aarch64") { 0x0a03 } else { 0x0303 }
}

/// Entry of a cache.
struct Entry {
    flags: i32,
    name: Vec<u8>,
    path: Vec<u8>,
}

/// Returns the cache with these libraries before those of the image's cache. Libraries for certain processors are left out:
/// programs use the general ones.
pub fn merge(image: Option<&[u8]>, libraries: &[Library]) -> Result<Vec<u8>, SpecError> {
    let own = libraries.iter().map(|library| Entry {
        flags: flags(),
        name: library.name.clone().into_bytes(),
        path: library.path.clone().into_bytes(),
    });
    let mut entries: Vec<Entry> = own.collect();
    let first = entries.len();
    entries.extend(image.map(read).transpose()?.unwrap_or_default());
    let mut order: Vec<usize> = (0..entries.len()).collect();
    // The linker searches a descending list in halves, and takes the first of equal names.
    order.sort_by(|one, other| {
        compare(&entries[*other].name, &entries[*one].name).then((*one >= first).cmp(&(*other >= first)))
    });
    Ok(write(&order.into_iter().map(|index| &entries[index]).collect::<Vec<_>>()))
}

fn write(entries: &[&Entry]) -> Vec<u8> {
    let strings_at = HEADER + entries.len() * ENTRY;
    let (mut table, mut strings) = (Vec::new(), Vec::new());
    let mut put = |text: &[u8]| {
        let at = number(strings_at + strings.len());
        strings.extend_from_slice(text);
        strings.push(0);
        at
    };
    for entry in entries {
        table.extend(entry.flags.to_le_bytes());
        table.extend(put(&entry.name).to_le_bytes());
        table.extend(put(&entry.path).to_le_bytes());
        // Neither a minimum version of the kernel nor a requirement of the processor.
        table.extend([0; 12]);
    }
    let mut cache = MAGIC.to_vec();
    cache.extend(number(entries.len()).to_le_bytes());
    cache.extend(number(strings.len()).to_le_bytes());
    // Little endian; no extensions.
    cache.extend([2, 0, 0, 0]);
    cache.extend([0; 16]);
    cache.extend(table);
    cache.extend(strings);
    cache
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn read(cache: &[u8]) -> Result<Vec<Entry>, SpecError> {
    let damaged = || SpecError::LinkerCache;
    if cache.len() > LONGEST {
        return Err(damaged());
    }
    let word = |bytes: &[u8], at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
    };
    let size = |value: Option<u32>| value.and_then(|value| usize::try_from(value).ok()).ok_or_else(damaged);
    // An older list may come first; the newer one follows at a multiple of eight.
    let mut start = 0;
    if cache.starts_with(OLD_MAGIC) {
        let old = size(word(cache, 12))?.checked_mul(12).and_then(|length| length.checked_add(16));
        start = old.ok_or_else(damaged)?.next_multiple_of(8);
    }
    let cache = cache.get(start..).ok_or_else(damaged)?;
    if !cache.starts_with(MAGIC) {
        return Err(damaged());
    }
    let count = size(word(cache, 20))?;
    if count > MOST_ENTRIES {
        return Err(damaged());
    }
    let text = |at: usize| -> Option<Vec<u8>> {
        let rest = cache.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(rest[..end].to_vec())
    };
    let mut entries = Vec::new();
    for index in 0..count {
        let at = HEADER + index * ENTRY;
        let flags = word(cache, at).ok_or_else(damaged)?.cast_signed();
        let (name, path) = (size(word(cache, at + 4))?, size(word(cache, at + 8))?);
        let requires = cache.get(at + 16..at + 24).ok_or_else(damaged)?;
        if requires.iter().any(|byte| *byte != 0) {
            continue;
        }
        let (name, path) = (text(name).ok_or_else(damaged)?, text(path).ok_or_else(damaged)?);
        entries.push(Entry { flags, name, path });
    }
    Ok(entries)
}

/// Compares names as the linker does: digits by their value, and after all other characters.
fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match (left.first(), right.first()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match (a.is_ascii_digit(), b.is_ascii_digit()) {
                (true, true) => {
                    let (a, b) = (digits(left), digits(right));
                    let value = |text: &[u8]| {
                        let start = text.iter().take_while(|byte| **byte == b'0').count();
                        (text.len() - start, text[start..].to_vec())
                    };
                    match value(&left[..a]).cmp(&value(&right[..b])) {
                        Ordering::Equal => (left, right) = (&left[a..], &right[b..]),
                        unequal => return unequal,
                    }
                }
                (true, false) => return Ordering::Greater,
                (false, true) => return Ordering::Less,
                (false, false) if a != b => return a.cmp(b),
                (false, false) => (left, right) = (&left[1..], &right[1..]),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, path: &str) -> Library {
        Library { name: name.to_owned(), path: path.to_owned() }
    }

    fn listed(cache: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        read(cache).unwrap().into_iter().map(|entry| (text(entry.name), text(entry.path))).collect()
    }

    #[test]
    fn names_are_ordered_as_the_linker_searches_them() {
        let mut names =
            ["libz.so.1", "liba.so.10", "liba.so.9", "liba.so", "lib2.so", "libcuda.so.1", "liba.so.09"];
        names.sort_by(|one, other| compare(one.as_bytes(), other.as_bytes()));
        let expected =
            ["liba.so", "liba.so.9", "liba.so.09", "liba.so.10", "libcuda.so.1", "libz.so.1", "lib2.so"];
        assert_eq!(names, expected);
    }

    #[test]
    fn libraries_of_the_devices_come_before_the_images_own() {
        let image =
            merge(None, &[library("libc.so.6", "/lib/libc.so.6"), library("libcuda.so.1", "/old")]).unwrap();
        let merged =
            merge(Some(&image), &[library("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1")]).unwrap();
        let expected = [
            ("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"),
            ("libcuda.so.1", "/old"),
            ("libc.so.6", "/lib/libc.so.6"),
        ];
        assert_eq!(listed(&merged), expected.map(|(name, path)| (name.to_owned(), path.to_owned())));
    }

    #[test]
    fn a_damaged_cache_is_refused_and_never_read_beyond_its_end() {
        let good = merge(None, &[library("libc.so.6", "/lib/libc.so.6")]).unwrap();
        for length in 0..good.len() {
            assert!(merge(Some(&good[..length]), &[]).is_err(), "{length}");
        }
        for at in 0..HEADER + ENTRY {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            // It is refused, or read within its bounds.
            let _ = merge(Some(&bad), &[]);
        }
    }

    /// The machine's own cache, written by its `ldconfig`, is read in full; the merged one is read by its linker.
    #[test]
    fn the_machines_linker_reads_what_is_written() {
        let Ok(own) = std::fs::read("/etc/ld.so.cache") else { return };
        let merged =
            merge(Some(&own), &[library("libmuster-none.so.1", "/nowhere/libmuster-none.so.1")]).unwrap();
        let (before, after) = (listed(&own), listed(&merged));
        assert_eq!(after.len(), before.len() + 1);
        let folder = std::env::temp_dir().join(format!("muster-linker-cache-{}", std::process::id()));
        std::fs::write(&folder, &merged).unwrap();
        let print = std::process::Command::new("/sbin/ldconfig").arg("-C").arg(&folder).arg("-p").output();
        std::fs::remove_file(&folder).unwrap();
        let Ok(printed) = print else { return };
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert!(printed.contains("libmuster-none.so.1 (libc6"), "{printed}");
        assert!(printed.contains("=> /nowhere/libmuster-none.so.1"), "{printed}");
    }
}
