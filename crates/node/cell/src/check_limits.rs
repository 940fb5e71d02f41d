//! Limits of checks: of all checks on a node together, and of those of one allocation.
//!
//! The groups of all checks have one parent with the node's limit. The kernel would enforce that limit by killing some check,
//! perhaps another tenant's. So the limits of the allocations whose checks run at once never exceed the node's in sum: the
//! agent starts checks of so many allocations at once and no more.

use crate::cgroup::Limits;
use crate::error::{CellResult, refused};

/// Memory of an allocation's checks, where the node has enough for several.
const ALLOCATION_MEMORY_MB: u64 = 512;
const ALLOCATION_CPUS: u32 = 1;
/// Allocations whose checks run at once: at least two, so that no project can hold up all others.
const FEWEST_AT_ONCE: u64 = 2;
const MOST_AT_ONCE: u64 = 32;
/// Memory with which a check can still start.
const SMALLEST_MEMORY_MB: u64 = 64;

/// Limits of all checks on a node together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckLimits {
    cpus: u32,
    memory_mb: u64,
}

impl CheckLimits {
    /// Least memory of all checks on a node, in MiB.
    pub const LEAST_MEMORY_MB: u64 = FEWEST_AT_ONCE * SMALLEST_MEMORY_MB;
    /// Most memory that checks on a node can use, in MiB.
    pub const MOST_MEMORY_MB: u64 = MOST_AT_ONCE * ALLOCATION_MEMORY_MB;

    /// Returns limits in logical CPUs and MiB of memory; fails below 1 CPU and [`Self::LEAST_MEMORY_MB`].
    pub fn new(cpus: u32, memory_mb: u64) -> CellResult<Self> {
        if cpus < 1 || memory_mb < Self::LEAST_MEMORY_MB {
            return refused(format!(
                "checks need at least 1 CPU and {} MiB of memory",
                Self::LEAST_MEMORY_MB
            ));
        }
        Ok(Self { cpus, memory_mb })
    }

    /// Returns the limits of all checks on the node.
    pub(crate) fn of_node(self) -> CellResult<Limits> {
        Limits::new(self.cpus, self.memory_mb)
    }

    /// Returns the limits shared by the checks of an allocation.
    pub(crate) fn of_allocation(self) -> CellResult<Limits> {
        Limits::new(ALLOCATION_CPUS, self.allocation_memory_mb())
    }

    pub(crate) fn allocation_memory_mb(self) -> u64 {
        ALLOCATION_MEMORY_MB.min(self.memory_mb / FEWEST_AT_ONCE)
    }

    /// Returns the number of allocations whose checks may run at once.
    pub fn allocations_at_once(self) -> usize {
        let number = (self.memory_mb / self.allocation_memory_mb()).min(MOST_AT_ONCE);
        usize::try_from(number).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::CheckLimits;

    #[test]
    fn allocations_at_once_never_exceed_the_nodes_memory() {
        for (memory_mb, at_once, each) in [
            (128, 2, 64),
            (1_000, 2, 500),
            (1_024, 2, 512),
            (2_816, 5, 512),
            (16_384, 32, 512),
            (65_536, 32, 512),
        ] {
            let limits = CheckLimits::new(1, memory_mb).unwrap();
            assert_eq!((limits.allocations_at_once(), limits.allocation_memory_mb()), (at_once, each));
            assert!(at_once as u64 * each <= memory_mb);
        }
        assert!(CheckLimits::new(0, 1_024).is_err());
        assert!(CheckLimits::new(1, 127).is_err());
    }
}
