//! Inventory of this machine, read from the machine itself.
//!
//! All of `/proc` and `/sys` is read below a root that the caller passes in, so that a test can lay out a machine in a
//! folder. sysinfo and procfs do not fit: they support neither another root nor NUMA, PCI addresses or virtual functions. A
//! read failure becomes a note, never an error, because an operator needs the readable part of a broken machine.

mod checks;
mod cpus;
mod disk;
mod gpus;
mod islands;
mod network;
mod numa;
mod pci;
mod system;
mod tree;

use std::path::Path;

use muster_wire::inventory::{Gpu, Inventory};

pub use checks::{CheckReserve, LEAST_CHECK_MEMORY_MB, check_limits};
pub use disk::DiskReserve;
use tree::Tree;

/// Begin of the UUID of every fake GPU. The real driver creates device nodes without a device for them.
pub const FAKE_GPU_PREFIX: &str = "GPU-simulated-";

/// Resources that are not offered to allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    /// Disk space.
    pub disk: DiskReserve,
    /// CPUs and memory for checks.
    pub checks: CheckReserve,
}

impl Default for Reserve {
    fn default() -> Self {
        Self { disk: DiskReserve::Default, checks: CheckReserve::default() }
    }
}

/// Reads the machine below `root`, which is `/` except in tests. Fake GPUs replace those of the machine. Blocks, because NVML
/// can take seconds.
pub fn read(root: &Path, data_dir: &Path, reserve: Reserve, fake_gpus: Option<&[Gpu]>) -> Inventory {
    let mut notes = Vec::new();
    let tree = Tree::new(root);
    let memory_mb = system::memory_mb(&tree, &mut notes);
    let cpus = cpus::read(&tree, &mut notes);
    let reserved = reserve.checks.of(cpus.count, memory_mb);
    let numa = numa::read(&tree, memory_mb, &mut notes);
    let pci = pci::read(&tree);
    let gpus = match fake_gpus {
        Some(gpus) => gpus.to_vec(),
        // NVML describes the machine it runs on, whatever the root.
        None if root == Path::new("/") => gpus::read(&pci, &numa, &mut notes),
        None => {
            notes.push("NVML was not queried: the root is not this machine's.".to_owned());
            Vec::new()
        }
    };
    if fake_gpus.is_none() {
        gpus::note_unseen(&pci, &gpus, &mut notes);
    }
    Inventory {
        hostname: tree.needed("proc/sys/kernel/hostname", &mut notes),
        kernel: tree.needed("proc/sys/kernel/osrelease", &mut notes),
        os: system::os(&tree, &mut notes),
        architecture: std::env::consts::ARCH.to_owned(),
        boot_id: tree.needed("proc/sys/kernel/random/boot_id", &mut notes),
        cpus,
        memory_mb,
        disk_mb: disk::offered_mb(data_dir, reserve.disk, &mut notes),
        reserved,
        numa,
        network: network::read(&tree),
        pci,
        gpus,
        device_specs: Vec::new(),
        simulated: fake_gpus.is_some(),
        notes,
    }
}
