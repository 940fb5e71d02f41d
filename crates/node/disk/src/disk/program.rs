//! System programs for operations without a safe wrapper: the ioctls of loop devices have none.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::Error;

/// Maximum length of program output in an error.
const SAID_MAX: usize = 2000;

/// Required programs: name, Debian package, purpose.
pub const PROGRAMS: &[(&str, &str, &str)] = &[
    ("losetup", "mount", "attaches disks"),
    ("mkfs.ext4", "e2fsprogs", "formats disks"),
    ("e2fsck", "e2fsprogs", "checks disks before their size changes"),
    ("resize2fs", "e2fsprogs", "changes the size of disks"),
];

/// Runs a program to completion and returns its output.
pub(super) fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<String, Error> {
    debug_assert!(PROGRAMS.iter().any(|(name, ..)| *name == program), "{program} is not in PROGRAMS");
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C");
    let line = || {
        let words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
        format!("{program} {}", words.collect::<Vec<_>>().join(" "))
    };
    let output =
        command.output().map_err(|error| Error::Node { doing: format!("start {}", line()), error })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().chars().take(SAID_MAX).collect();
    Err(Error::Program { program: line(), status: output.status.to_string(), said })
}
