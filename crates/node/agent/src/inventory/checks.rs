//! CPUs and memory that a node keeps back from allocations for the platform's checks.

use muster_cell::CheckLimits;
use muster_wire::inventory::Reserved;

use crate::AgentError;

/// Steps of the default memory, so that a kernel that reserves a few MiB more does not change it.
const STEP_MB: i64 = 256;

/// Least memory of all checks on a node together, in MiB.
pub const LEAST_CHECK_MEMORY_MB: u64 = CheckLimits::LEAST_MEMORY_MB;

/// CPUs and memory of all checks on a node together, where the operator set them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckReserve {
    /// Logical CPUs; by default one for every 32 of the machine.
    pub cpus: Option<u32>,
    /// MiB of memory; by default an eighth, from 1 to 16 GiB, and a quarter at most.
    pub memory_mb: Option<u64>,
}

impl CheckReserve {
    /// Returns the reserve of a machine.
    pub(super) fn of(self, cpus: i64, memory_mb: i64) -> Reserved {
        let most = i64::try_from(CheckLimits::MOST_MEMORY_MB).unwrap_or(i64::MAX);
        let default_mb = (memory_mb / 8).clamp(1 << 10, most).min(memory_mb / 4) / STEP_MB * STEP_MB;
        Reserved {
            // Of a small machine no CPU is kept back; its checks still have the limit of one CPU.
            cpus: self.cpus.map_or(cpus / 32, i64::from),
            memory_mb: self.memory_mb.map_or(default_mb, |mb| i64::try_from(mb).unwrap_or(i64::MAX)),
        }
    }
}

/// Returns the limits of all checks of a node with this reserve.
pub fn check_limits(reserved: Reserved) -> Result<CheckLimits, AgentError> {
    let cpus = u32::try_from(reserved.cpus).unwrap_or(u32::MAX).max(1);
    let memory_mb = u64::try_from(reserved.memory_mb).unwrap_or(0).max(CheckLimits::LEAST_MEMORY_MB);
    CheckLimits::new(cpus, memory_mb).map_err(|error| AgentError::Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use muster_wire::inventory::Reserved;

    use super::{CheckReserve, check_limits};

    #[test]
    fn a_small_part_of_a_machine_is_kept_back_for_checks() {
        let cases = [
            ((2, 700), (0, 0)),
            ((2, 4_096), (0, 1_024)),
            ((2, 24_105), (0, 2_816)),
            ((48, 196_608), (1, 16_384)),
            ((192, 2_063_000), (6, 16_384)),
        ];
        for ((cpus, memory_mb), (kept_cpus, kept_mb)) in cases {
            let kept = Reserved { cpus: kept_cpus, memory_mb: kept_mb };
            assert_eq!(CheckReserve::default().of(cpus, memory_mb), kept, "{cpus} CPUs, {memory_mb} MiB");
        }
        let set = CheckReserve { cpus: Some(3), memory_mb: Some(300) };
        assert_eq!(set.of(192, 2_063_000), Reserved { cpus: 3, memory_mb: 300 });
    }

    #[test]
    fn checks_of_the_smallest_machine_have_limits_too() {
        for memory_mb in [0, 1_024] {
            let limits = check_limits(Reserved { cpus: 0, memory_mb }).unwrap();
            assert!(limits.allocations_at_once() >= 2);
        }
    }
}
