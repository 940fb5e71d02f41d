//! The resources of a node, treated uniformly, so that a rule about one is a rule about all.

use crate::node::Capacity;

/// A resource of a node that an allocation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// GPUs.
    Gpus,
    /// Logical CPUs.
    Cpus,
    /// Memory in MiB.
    MemoryMb,
    /// Disk in MiB.
    DiskMb,
}

impl Resource {
    /// All values.
    pub const ALL: [Resource; 4] = [Resource::Gpus, Resource::Cpus, Resource::MemoryMb, Resource::DiskMb];

    /// Those that nodes count; GPUs are claimed slot by slot.
    pub const COUNTED: [Resource; 3] = [Resource::Cpus, Resource::MemoryMb, Resource::DiskMb];

    /// Returns the name of its field in a request.
    pub fn field(self) -> &'static str {
        match self {
            Resource::Gpus => "gpus",
            Resource::Cpus => "cpus",
            Resource::MemoryMb => "memory_mb",
            Resource::DiskMb => "disk_mb",
        }
    }

    /// Returns its amount in a capacity.
    pub fn amount(self, capacity: &Capacity) -> i64 {
        match self {
            Resource::Gpus => capacity.gpus,
            Resource::Cpus => capacity.cpus,
            Resource::MemoryMb => capacity.memory_mb,
            Resource::DiskMb => capacity.disk_mb,
        }
    }

    /// Returns its amount in a capacity, mutably.
    pub fn amount_mut(self, capacity: &mut Capacity) -> &mut i64 {
        match self {
            Resource::Gpus => &mut capacity.gpus,
            Resource::Cpus => &mut capacity.cpus,
            Resource::MemoryMb => &mut capacity.memory_mb,
            Resource::DiskMb => &mut capacity.disk_mb,
        }
    }

    /// Formats an amount: `1 GPU`, `512 MiB of memory`.
    pub fn words(self, amount: i64) -> String {
        let unit = match (self, amount) {
            (Resource::Gpus, 1) => "GPU",
            (Resource::Gpus, _) => "GPUs",
            (Resource::Cpus, 1) => "CPU",
            (Resource::Cpus, _) => "CPUs",
            (Resource::MemoryMb, _) => "MiB of memory",
            (Resource::DiskMb, _) => "MiB of disk",
        };
        format!("{amount} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_in_words_counts() {
        assert_eq!(Resource::Gpus.words(1), "1 GPU");
        assert_eq!(Resource::Cpus.words(0), "0 CPUs");
        assert_eq!(Resource::MemoryMb.words(512), "512 MiB of memory");
    }

    #[test]
    fn each_resource_reads_and_writes_its_own_field() {
        for resource in Resource::ALL {
            let mut capacity = Capacity::default();
            *resource.amount_mut(&mut capacity) = 7;
            let amounts = Resource::ALL.map(|other| other.amount(&capacity));
            assert_eq!(amounts.iter().sum::<i64>(), 7);
            assert_eq!(resource.amount(&capacity), 7);
            assert_eq!(serde_json::to_value(capacity).unwrap()[resource.field()], 7);
        }
    }
}
