//! System programs that create and remove network namespaces and links.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use muster_exec::Required;

/// Programs that nodes on one machine need beside those of agents: name, Debian package, purpose.
pub(crate) const PROGRAMS: &[Required] = &[
    ("setpriv", "util-linux", "ties agents to `muster up`"),
    ("nsenter", "util-linux", "enters namespaces"),
    ("unshare", "util-linux", "creates namespaces"),
    ("ip", "iproute2", "creates links"),
    ("umount", "mount", "removes namespaces"),
];
/// Timeout: the programs wait only for the kernel.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the words that run a program in a network namespace. `ip netns exec` would mount a new `/sys`, without control
/// groups.
pub(crate) fn inside(namespace: &Path) -> [OsString; 3] {
    let mut net = OsString::from("--net=");
    net.push(namespace);
    ["nsenter".into(), net, "--".into()]
}

/// Runs a program to its end and returns its output.
pub(crate) fn run(words: &[impl AsRef<OsStr>]) -> anyhow::Result<String> {
    let Some((program, arguments)) = words.split_first() else { bail!("there is no program to run") };
    Ok(muster_exec::run(&program.as_ref().to_string_lossy(), arguments, None, TIMEOUT)?)
}
