//! The things that a node has, one like the other, so that what is asked of one is asked of all.

use muster_api::capacity::QuotaLeft;
use muster_model::node::Capacity;

/// One of the things that a node has.
pub(super) struct Thing {
    pub(super) singular: &'static str,
    pub(super) plural: &'static str,
    pub(super) of: fn(&Capacity) -> i64,
    pub(super) place: fn(&mut Capacity) -> &mut i64,
    pub(super) left: fn(&QuotaLeft) -> Option<i64>,
}

impl Thing {
    pub(super) fn words(&self, amount: i64) -> String {
        format!("{amount} {}", if amount == 1 { self.singular } else { self.plural })
    }
}

pub(super) static GPUS: Thing = Thing {
    singular: "GPU",
    plural: "GPUs",
    of: |capacity| capacity.gpus,
    place: |capacity| &mut capacity.gpus,
    left: |quota| quota.gpus,
};

/// What is had beside the GPUs.
pub(super) static BESIDE: [Thing; 3] = [
    Thing {
        singular: "CPU",
        plural: "CPUs",
        of: |capacity| capacity.cpus,
        place: |capacity| &mut capacity.cpus,
        left: |quota| quota.cpus,
    },
    Thing {
        singular: "MiB of memory",
        plural: "MiB of memory",
        of: |capacity| capacity.memory_mb,
        place: |capacity| &mut capacity.memory_mb,
        left: |quota| quota.memory_mb,
    },
    Thing {
        singular: "MiB of disk",
        plural: "MiB of disk",
        of: |capacity| capacity.disk_mb,
        place: |capacity| &mut capacity.disk_mb,
        left: |quota| quota.disk_mb,
    },
];

/// All of them.
pub(super) fn things() -> impl Iterator<Item = &'static Thing> {
    [&GPUS].into_iter().chain(&BESIDE)
}
