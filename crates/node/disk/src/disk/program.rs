//! System programs for operations without a safe wrapper: the ioctls of loop devices have none.

use std::ffi::OsStr;
use std::time::Duration;

use muster_exec::Required;

use super::Error;

/// Required programs.
pub const PROGRAMS: &[Required] = &[
    ("losetup", "mount", "attaches disks"),
    ("mkfs.ext4", "e2fsprogs", "formats disks"),
    ("e2fsck", "e2fsprogs", "checks disks before their size changes"),
    ("resize2fs", "e2fsprogs", "changes the size of disks"),
];
/// Timeout: a check of the largest disk takes hours and must not be killed half way; one that takes this long hangs.
const TIMEOUT: Duration = Duration::from_hours(48);

/// Runs a program to its end and returns its output.
pub(super) fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<String, Error> {
    debug_assert!(PROGRAMS.iter().any(|(name, ..)| *name == program), "{program} is not in PROGRAMS");
    Ok(muster_exec::run(program, arguments, None, TIMEOUT)?.trim().to_owned())
}
