//! System programs that configure the network.

use std::time::Duration;

use muster_exec::Required;

use crate::NetworkError;

/// Required programs.
pub const PROGRAMS: &[Required] = &[
    ("ip", "iproute2", "creates links"),
    ("bridge", "iproute2", "fills forwarding tables"),
    ("nft", "nftables", "creates rules"),
    ("unshare", "util-linux", "creates namespaces"),
];
/// Timeout: the programs wait only for the kernel, so one that takes this long hangs.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a program in the namespace of the calling thread, and returns its output.
pub(crate) fn run(program: &str, args: &[&str], input: Option<&str>) -> Result<String, NetworkError> {
    debug_assert!(PROGRAMS.iter().any(|(name, ..)| *name == program), "{program} is not in PROGRAMS");
    Ok(muster_exec::run(program, args, input, TIMEOUT)?)
}
