//! Room for a fleet's connections: two for each node, where a process has a thousand descriptors as a rule.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many descriptors as the machine lets it have, and says how many that are.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, the sentence that follows a failed connection says what is missing.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
