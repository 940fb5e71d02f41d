//! Hardware of simulated machines, and fake GPUs for machines without any.

use muster_agent::inventory::FAKE_GPU_PREFIX;
use muster_wire::inventory::{Cpus, Gpu, Inventory, NumaNode, Reserved};

/// GPUs per island, as on boards where NVLink connects four.
const ISLAND: u32 = 4;

/// Fake GPUs that replace real ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeGpus {
    /// Number of GPUs.
    pub gpus: u32,
    /// Part of their UUIDs: the node's name, so that no two nodes share a GPU.
    pub seed: String,
}

impl FakeGpus {
    /// Returns the GPUs, always the same for the same parameters. More than one island is spread over two NUMA nodes,
    /// whether or not the machine has two; its own list of nodes is not changed.
    pub fn gpus(&self) -> Vec<Gpu> {
        (0..self.gpus)
            .map(|index| {
                let island = index / ISLAND;
                let alone = index % ISLAND == 0 && index + 1 == self.gpus;
                Gpu {
                    ordinal: i64::from(index),
                    uuid: format!("{FAKE_GPU_PREFIX}{}-{index}", self.seed),
                    model: "Simulated GPU".to_owned(),
                    memory_mb: 81_920,
                    pci: None,
                    numa: i64::from(on_second(index, self.gpus)),
                    island: i64::from(island),
                    nvlinks: if alone { 0 } else { 12 },
                    mig: false,
                    ..Gpu::default()
                }
            })
            .collect()
    }
}

/// Reports whether a GPU is on the second NUMA node: the latter half is, if there is more than one island. Islands are never
/// split.
fn on_second(index: u32, gpus: u32) -> bool {
    let islands = gpus.div_ceil(ISLAND);
    islands > 1 && index / ISLAND >= islands.div_ceil(2)
}

/// Returns a machine of the simulated fleet. Nothing is read: the same parameters give the same machine anywhere.
pub fn simulated_inventory(name: &str, gpus: u32, cpus: u32, memory_mb: i64, disk_mb: i64) -> Inventory {
    let gpus = FakeGpus { gpus, seed: name.to_owned() }.gpus();
    let two = gpus.iter().any(|gpu| gpu.numa == 1) && cpus > 1;
    let half = cpus / 2;
    let node = |ordinal, first, end: u32, memory_mb| NumaNode { ordinal, cpus: list(first, end), memory_mb };
    let numa = if two {
        vec![node(0, 0, half, memory_mb / 2), node(1, half, cpus, memory_mb - memory_mb / 2)]
    } else {
        vec![node(0, 0, cpus, memory_mb)]
    };
    Inventory {
        hostname: name.to_owned(),
        kernel: "simulated".to_owned(),
        os: "simulated".to_owned(),
        architecture: "x86_64".to_owned(),
        boot_id: format!("simulated-{name}"),
        cpus: Cpus {
            count: i64::from(cpus),
            sockets: if two { 2 } else { 1 },
            model: "Simulated CPU".to_owned(),
        },
        memory_mb,
        disk_mb,
        reserved: Reserved::default(),
        numa,
        pci: Vec::new(),
        network: Vec::new(),
        gpus,
        device_specs: Vec::new(),
        simulated: true,
        notes: Vec::new(),
    }
}

/// Formats a half-open range in the kernel's list format.
fn list(first: u32, end: u32) -> String {
    match end.saturating_sub(first) {
        0 => String::new(),
        1 => first.to_string(),
        _ => format!("{first}-{}", end - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{FakeGpus, simulated_inventory};

    fn layout(gpus: u32) -> Vec<(i64, i64)> {
        let gpus = FakeGpus { gpus, seed: "a".into() }.gpus();
        gpus.iter().map(|gpu| (gpu.numa, gpu.island)).collect()
    }

    #[test]
    fn eight_gpus_are_two_islands_on_two_numa_nodes() {
        let eight = layout(8);
        assert_eq!(eight[..4], [(0, 0); 4]);
        assert_eq!(eight[4..], [(1, 1); 4]);
        assert_eq!(layout(2), [(0, 0); 2]);
        assert_eq!(layout(6)[3..5], [(0, 0), (1, 1)]);
        assert!(layout(0).is_empty());
    }

    #[test]
    fn no_two_nodes_have_a_gpu_in_common() {
        let (a, b) =
            (simulated_inventory("a", 8, 64, 1024, 1024), simulated_inventory("b", 8, 64, 1024, 1024));
        assert!(a.gpus.iter().all(|gpu| b.gpus.iter().all(|other| other.uuid != gpu.uuid)));
        assert_eq!(a.gpus[7].uuid, "GPU-simulated-a-7");
        assert_ne!(a.hardware_digest(), b.hardware_digest());
    }

    #[test]
    fn a_simulated_machine_is_the_same_each_time() {
        let machine = simulated_inventory("a", 8, 65, 4097, 100);
        assert_eq!(machine, simulated_inventory("a", 8, 65, 4097, 100));
        assert!(machine.simulated);
        let numa: Vec<_> = machine.numa.iter().map(|node| (node.cpus.as_str(), node.memory_mb)).collect();
        assert_eq!(numa, [("0-31", 2048), ("32-64", 2049)]);
        let small = simulated_inventory("b", 0, 1, 512, 100);
        assert_eq!(small.numa[0].cpus, "0");
        assert!(small.gpus.is_empty());
    }
}
