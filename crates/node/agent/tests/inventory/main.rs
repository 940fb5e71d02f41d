//! Inventory of this machine, and of machines laid out in a folder.

mod nvml;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use muster_agent::inventory::{Reserve, read};
use muster_agent_sim::FakeGpus;
use muster_wire::difference::difference;
use muster_wire::inventory::{Inventory, Reserved, Vfs};

const GPU: &str = "0000:18:00.0";
const NIC: &str = "0000:3b:00.0";
const NVME: &str = "0000:e1:00.0";

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
}

fn link(root: &Path, path: &str, target: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

/// A PCI device as in `/sys`: the folder below `devices`, a link to it below `bus`.
fn pci(root: &Path, address: &str, facts: &[(&str, &str)], driver: Option<&str>) {
    let folder = format!("sys/devices/pci0000:00/{address}");
    for (file, text) in facts {
        write(root, &[(&format!("{folder}/{file}"), text)]);
    }
    if let Some(driver) = driver {
        link(root, &format!("{folder}/driver"), &format!("../../../bus/pci/drivers/{driver}"));
    }
    let place = format!("../../../devices/pci0000:00/{address}");
    link(root, &format!("sys/bus/pci/devices/{address}"), &place);
}

/// A machine with two NUMA nodes, a GPU, a network card with virtual functions, an NVMe disk and a bridge.
fn machine(root: &Path) {
    write(
        root,
        &[
            ("proc/sys/kernel/hostname", "made"),
            ("proc/sys/kernel/osrelease", "6.8.0-60-generic"),
            ("proc/sys/kernel/random/boot_id", "3a12e475-6b71-4497-a2a3-cb0afd795c13"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Made CPU\n\nprocessor\t: 1\nmodel name\t: Made CPU",
            ),
            ("proc/meminfo", "MemTotal:       4194304 kB\nMemFree:        1 kB"),
            ("etc/os-release", "ID=made\nPRETTY_NAME=\"Made Linux 1\""),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/node/online", "0-1"),
            ("sys/devices/system/node/node0/cpulist", "0-1"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        3145728 kB"),
            ("sys/devices/system/node/node1/cpulist", "2-3"),
            ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:        1048576 kB"),
            ("sys/devices/system/node/node2/cpulist", ""),
            ("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:        0 kB"),
        ],
    );
    for cpu in 0..4 {
        let package = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        write(root, &[(&package, if cpu < 2 { "0" } else { "1" })]);
    }
    let facts = |class, vendor, device, numa| {
        vec![("class", class), ("vendor", vendor), ("device", device), ("numa_node", numa)]
    };
    pci(root, "0000:00:00.0", &facts("0x060000", "0x8086", "0x0d57", "-1"), None);
    pci(root, GPU, &facts("0x030200", "0x10de", "0x2335", "1"), Some("vfio-pci"));
    pci(root, NVME, &facts("0x010802", "0x144d", "0xa80a", "-1"), Some("nvme"));
    let mut card = facts("0x020000", "0x15b3", "0x1021", "0");
    card.extend([("sriov_totalvfs", "8"), ("sriov_numvfs", "1")]);
    pci(root, NIC, &card, Some("mlx5_core"));
    let function = "0000:3b:00.1";
    pci(root, function, &facts("0x020000", "0x15b3", "0x101e", "0"), Some("mlx5_core"));
    link(root, &format!("sys/devices/pci0000:00/{function}/physfn"), &format!("../{NIC}"));

    network(root, "ens1np0", NIC, "94:6d:ae:00:00:01");
    network(root, "ens1v0", function, "02:00:00:00:00:01");
    fs::create_dir_all(root.join(format!("sys/devices/pci0000:00/{NIC}/infiniband/mlx5_0"))).unwrap();
    write(root, &[("sys/devices/virtual/net/br0/address", "02:00:00:00:00:02")]);
    link(root, "sys/class/net/br0", "../../devices/virtual/net/br0");
}

fn network(root: &Path, name: &str, address: &str, mac: &str) {
    let folder = format!("sys/devices/pci0000:00/{address}/net/{name}");
    for (file, text) in [
        ("address", mac),
        ("mtu", "9000"),
        ("speed", "400000"),
        ("operstate", "up"),
        ("addr_assign_type", "0"),
    ] {
        write(root, &[(&format!("{folder}/{file}"), text)]);
    }
    link(root, &format!("{folder}/device"), &format!("../../../{address}"));
    link(root, &format!("sys/class/net/{name}"), &format!("../../devices/pci0000:00/{address}/net/{name}"));
}

fn made() -> Inventory {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    read(folder.path(), folder.path(), Reserve::default(), None)
}

#[test]
fn a_machine_is_read_from_the_tree_that_is_given() {
    let found = made();
    assert_eq!((found.hostname.as_str(), found.os.as_str()), ("made", "Made Linux 1"));
    assert_eq!(found.kernel, "6.8.0-60-generic");
    assert_eq!(found.boot_id, "3a12e475-6b71-4497-a2a3-cb0afd795c13");
    assert_eq!((found.cpus.count, found.cpus.sockets, found.cpus.model.as_str()), (4, 2, "Made CPU"));
    assert_eq!(found.memory_mb, 4096);
    assert_eq!(found.reserved, Reserved { cpus: 0, memory_mb: 1024 }, "for checks");
    assert!(found.disk_mb > 0);
    let numa: Vec<_> =
        found.numa.iter().map(|node| (node.ordinal, node.cpus.as_str(), node.memory_mb)).collect();
    assert_eq!(numa, [(0, "0-1", 3072), (1, "2-3", 1024)], "a node with nothing in it is not listed");
    assert!(!found.simulated);
}

#[test]
fn of_the_pci_bus_only_what_matters_is_listed() {
    let found = made();
    let addresses: Vec<_> = found.pci.iter().map(|device| device.address.as_str()).collect();
    assert_eq!(addresses, [GPU, NIC, NVME], "neither the bridge nor the virtual function");
    let [gpu, nic, nvme] = &found.pci[..] else { panic!("three devices") };
    assert_eq!((gpu.vendor.as_str(), gpu.device.as_str(), gpu.class.as_str()), ("10de", "2335", "030200"));
    assert_eq!((gpu.driver.as_deref(), gpu.numa, gpu.vfs), (Some("vfio-pci"), Some(1), None));
    assert_eq!(nic.vfs, Some(Vfs { total: 8, active: 1 }));
    assert_eq!((nvme.driver.as_deref(), nvme.numa), (Some("nvme"), None));
}

#[test]
fn of_the_network_only_hardware_is_listed() {
    let found = made();
    let [nic] = &found.network[..] else { panic!("one device: {:?}", found.network) };
    assert_eq!((nic.name.as_str(), nic.mac.as_str()), ("ens1np0", "94:6d:ae:00:00:01"));
    assert_eq!((nic.mtu, nic.speed_mbps, nic.state.as_str()), (9000, Some(400_000), "up"));
    assert_eq!((nic.driver.as_deref(), nic.pci.as_deref(), nic.rdma), (Some("mlx5_core"), Some(NIC), true));
}

#[test]
fn a_gpu_without_nvml_is_noted_and_not_counted() {
    let found = made();
    assert!(found.gpus.is_empty());
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    assert!(found.notes[1].starts_with(GPU), "{:?}", found.notes);
}

#[test]
fn the_only_numa_node_has_all_the_memory_whatever_a_balloon_took_from_it() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    fs::remove_dir_all(folder.path().join("sys/devices/system/node/node1")).unwrap();
    let found = read(folder.path(), folder.path(), Reserve::default(), None);
    assert_eq!(found.numa.iter().map(|node| node.memory_mb).collect::<Vec<_>>(), [4096]);
}

#[test]
fn an_empty_tree_is_all_notes_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let found = read(folder.path(), folder.path(), Reserve::default(), None);
    assert_eq!((found.cpus.count, found.memory_mb), (0, 0));
    for missing in ["hostname", "osrelease", "boot_id", "cpuinfo", "meminfo", "os-release", "NUMA", "NVML"] {
        assert!(found.notes.iter().any(|note| note.contains(missing)), "{missing}: {:?}", found.notes);
    }
}

#[test]
fn simulated_gpus_replace_real_ones_and_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let found = read(
        folder.path(),
        folder.path(),
        Reserve::default(),
        Some(&FakeGpus { gpus: 8, seed: "laptop".into() }.gpus()),
    );
    assert!(found.simulated);
    assert_eq!(found.gpus.len(), 8);
    assert_eq!(found.gpus[5].uuid, "GPU-simulated-laptop-5");
    assert!(found.notes.is_empty(), "{:?}", found.notes);
}

#[test]
fn this_very_machine_says_the_same_twice() {
    let data = tempfile::tempdir().unwrap();
    let found = read(Path::new("/"), data.path(), Reserve::default(), None);
    assert!(!found.hostname.is_empty() && !found.kernel.is_empty());
    assert_eq!(found.architecture, std::env::consts::ARCH);
    assert!(found.cpus.count >= 1 && found.cpus.sockets >= 1 && found.cpus.sockets <= found.cpus.count);
    assert!(found.memory_mb > 256 && found.disk_mb > 0);
    assert!(!found.numa.is_empty());
    let gpus_are_sane = found.gpus.iter().all(|gpu| gpu.uuid.starts_with("GPU-") && gpu.memory_mb > 0);
    assert!(gpus_are_sane, "{:?}", found.gpus);
    // Each GPU of the bus is shown, or a note says why not.
    for device in found.pci.iter().filter(|device| device.vendor == "10de" && device.class.starts_with("03"))
    {
        let is_shown = found.gpus.iter().any(|gpu| gpu.pci.as_ref() == Some(&device.address));
        let is_noted = found.notes.iter().any(|note| note.starts_with(&device.address));
        assert!(is_shown != is_noted, "{}: {found:?}", device.address);
    }
    let without_nvml = found.notes.iter().any(|note| note.starts_with("NVML is not there: "));
    assert!(!without_nvml || found.gpus.is_empty(), "{found:?}");

    let again = read(Path::new("/"), data.path(), Reserve::default(), None);
    assert_eq!(difference(&found, &again), []);
    assert_eq!(found.hardware_digest(), again.hardware_digest());
    let stored: Inventory = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
    assert_eq!(stored, found, "what is stored is what was read");
    // For the tests in `nvml.rs`, which run this one with another library.
    println!("inventory: {}", serde_json::to_string(&found).unwrap());
}

/// Read on a virtual machine with one H200 (driver 580, Ubuntu 24.04); names and identities were replaced.
#[test]
fn recorded_h200_inventory_round_trips_unchanged() {
    let text = include_str!("h200.json");
    let stored: Inventory = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string_pretty(&stored).unwrap(), text.trim_end());
    let [gpu] = &stored.gpus[..] else { panic!("one GPU") };
    assert_eq!((gpu.model.as_str(), gpu.memory_mb, gpu.island), ("NVIDIA H200", 143_771, 0));
}
