//! Descriptors for a fleet's connections: two for each node, where the usual limit is a thousand.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the descriptor limit to the maximum, and returns it.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, the error of a failed connection names the cause.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
