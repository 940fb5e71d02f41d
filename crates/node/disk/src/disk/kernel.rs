//! Mounts and loop devices, as reported by the kernel.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::Error;

/// A line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MountLine {
    /// `major:minor` of the mounted device.
    pub(super) device: String,
    pub(super) at: PathBuf,
    /// Options of the file system; for an overlay they name its layers.
    pub(super) options: String,
}

impl MountLine {
    /// Reports whether the file system is read-only, whatever this mount of it allows.
    pub(super) fn is_read_only(&self) -> bool {
        // Kernels since 6.14 report an error as an emergency, and leave "rw" there.
        self.options.split(',').any(|option| matches!(option, "ro" | "emergency_ro" | "shutdown"))
    }
}

/// A loop device with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loop {
    /// `loop7`.
    pub(super) name: String,
    /// `major:minor`.
    pub(super) device: String,
    pub(super) file: PathBuf,
    /// Whether the file was unlinked.
    pub(super) deleted: bool,
}

impl Loop {
    pub(super) fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

/// Returns the mounts of this process's namespace.
pub(super) fn mounts() -> Result<Vec<MountLine>, Error> {
    let path = Path::new("/proc/self/mountinfo");
    Ok(parse_mounts(&fs::read(path).map_err(Error::at("read", path))?))
}

pub(super) fn parse_mounts(bytes: &[u8]) -> Vec<MountLine> {
    let parse = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        Some(MountLine {
            device: String::from_utf8_lossy(fields.get(2)?).into_owned(),
            at: PathBuf::from(OsString::from_vec(unescaped(fields.get(4)?))),
            options: String::from_utf8_lossy(&unescaped(fields.get(dash + 3)?)).into_owned(),
        })
    };
    bytes.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// Decodes the kernel's escapes of spaces and the like, such as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let octal = field.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if field[at] == b'\\' => {
                out.push(byte);
                at += 4;
            }
            _ => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    out
}

/// Returns the loop devices with a file.
pub(super) fn loops() -> Result<Vec<Loop>, Error> {
    let folder = Path::new("/sys/block");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::at("list", folder))? {
        let entry = entry.map_err(Error::at("list", folder))?;
        let Some(name) =
            entry.file_name().to_str().filter(|name| name.starts_with("loop")).map(str::to_owned)
        else {
            continue;
        };
        // A device without a file has no such folder, and may lose it meanwhile.
        let Ok(file) = fs::read(entry.path().join("loop/backing_file")) else { continue };
        let Ok(device) = fs::read_to_string(entry.path().join("dev")) else { continue };
        let file = file.strip_suffix(b"\n").unwrap_or(&file);
        let (file, deleted) = match file.strip_suffix(b" (deleted)") {
            Some(file) => (file, true),
            None => (file, false),
        };
        let file = PathBuf::from(OsString::from_vec(file.to_vec()));
        found.push(Loop { name, device: device.trim().to_owned(), file, deleted });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Returns the loop devices of this file.
pub(super) fn loops_of(file: &Path) -> Result<Vec<Loop>, Error> {
    Ok(loops()?.into_iter().filter(|device| device.file == file).collect())
}

/// Disables discards on a loop device, so that blocks are never returned to the node before they are overwritten.
pub(super) fn never_discard(device: &Loop) -> io::Result<()> {
    fs::write(Path::new("/sys/block").join(&device.name).join("queue/discard_max_bytes"), "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_spaces() {
        let text = b"36 35 7:3 / /run/a\\040b rw,nosuid shared:1 - ext4 /dev/loop3 rw,errors=remount-ro\n\
            37 35 0:40 / /x rw - overlay overlay rw,lowerdir=/l,upperdir=/run/a\\040b/upper\nnonsense\n";
        let mounts = parse_mounts(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].device.as_str(), mounts[0].at.as_path()), ("7:3", Path::new("/run/a b")));
        assert!(mounts[1].options.contains("upperdir=/run/a b/upper"));
        assert!(!mounts[0].is_read_only());
        let after_error = b"36 35 7:3 / /run/a rw,nosuid - ext4 /dev/loop3 ro,errors=remount-ro\n";
        assert!(parse_mounts(after_error)[0].is_read_only());
    }
}
