//! What a machine has, as its agent found it.
//!
//! Every list is sorted and nothing depends on the order in which the machine was read, so that equal machines give
//! equal JSON. Amounts are MiB, as everywhere in the platform.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a machine has. `Inventory::hardware_digest` says which part of it an operator approves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Inventory {
    /// The machine's own name for itself. The platform's name for it is the node's.
    pub hostname: String,
    /// The running kernel's release.
    #[schema(example = "6.8.0-60-generic")]
    pub kernel: String,
    /// The distribution, as it calls itself.
    #[schema(example = "Ubuntu 24.04.2 LTS")]
    pub os: String,
    /// The processor architecture.
    #[schema(example = "x86_64")]
    pub architecture: String,
    /// Made anew by the kernel at each start; two inventories with the same one come from the same start.
    pub boot_id: String,
    /// The processors.
    pub cpus: Cpus,
    /// Memory that the kernel can give out, in MiB: a little less than is built in.
    pub memory_mb: i64,
    /// Size of the file system that holds the agent's data, in MiB.
    pub disk_mb: i64,
    /// The NUMA nodes, by number.
    pub numa: Vec<NumaNode>,
    /// Graphics, accelerator, network and NVMe devices on the PCI bus, by address. Virtual functions are not listed:
    /// the device they belong to says how many there are.
    pub pci: Vec<PciDevice>,
    /// Network devices with hardware behind them, by name. Bridges, tunnels and virtual functions come and go with the
    /// cells and are not listed.
    pub network: Vec<NetworkDevice>,
    /// The GPUs, by number.
    pub gpus: Vec<Gpu>,
    /// Whether the GPUs are invented, for machines that have none.
    pub pretended: bool,
    /// What could not be read, and why.
    pub notes: Vec<String>,
}

/// The processors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cpus {
    /// Logical CPUs that are online.
    pub count: i64,
    /// Sockets they sit in.
    pub sockets: i64,
    /// The model, as the processor calls itself.
    #[schema(example = "INTEL(R) XEON(R) PLATINUM 8568Y+")]
    pub model: String,
}

/// Memory and the CPUs nearest to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NumaNode {
    /// The kernel's number for it.
    pub ordinal: i64,
    /// Its CPUs, in the kernel's list form.
    #[schema(example = "0-47,96-143")]
    pub cpus: String,
    /// Its memory in MiB.
    pub memory_mb: i64,
}

/// A device on the PCI bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PciDevice {
    /// Domain, bus, device and function.
    #[schema(example = "0000:18:00.0")]
    pub address: String,
    /// Who made it: four hexadecimal digits.
    #[schema(example = "10de")]
    pub vendor: String,
    /// Which device of that vendor: four hexadecimal digits.
    #[schema(example = "2335")]
    pub device: String,
    /// What kind of device: class, subclass and interface, two hexadecimal digits each.
    #[schema(example = "030200")]
    pub class: String,
    /// The kernel driver that holds it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The NUMA node it hangs on; absent where the machine does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa: Option<i64>,
    /// Its virtual functions, if it can have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vfs: Option<Vfs>,
}

/// Virtual functions of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Vfs {
    /// How many it can have.
    pub total: i64,
    /// How many are switched on.
    pub active: i64,
}

/// A network device with hardware behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkDevice {
    /// The interface's name.
    #[schema(example = "ens1f0np0")]
    pub name: String,
    /// Its permanent address. Of InfiniBand's twenty bytes only the last eight, the port's GUID: the others change from
    /// start to start. Empty where the kernel made an address up.
    #[schema(example = "94:6d:ae:00:00:01")]
    pub mac: String,
    /// The largest packet, in bytes.
    pub mtu: i64,
    /// The link's speed in Mbit/s; absent while there is no link, and where the device does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<i64>,
    /// The link's state in the kernel's word: `up`, `down`, `unknown` and a few more.
    #[schema(example = "up")]
    pub state: String,
    /// The kernel driver that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The PCI device behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Whether it can do RDMA.
    pub rdma: bool,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gpu {
    /// The driver's number for it, from 0. It shifts when a GPU before it is gone: the UUID is its identity.
    pub ordinal: i64,
    /// Its identity, which it keeps in any machine.
    #[schema(example = "GPU-8f3d2c11-6a0e-4c8e-9a55-0d6b7f1e2a34")]
    pub uuid: String,
    /// The model.
    #[schema(example = "NVIDIA H200")]
    pub model: String,
    /// Its memory in MiB.
    pub memory_mb: i64,
    /// Its address on the PCI bus; a pretended one has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// The NUMA node it hangs on; -1 where the machine does not say.
    pub numa: i64,
    /// Its NVLink island: GPUs that reach each other over NVLink have the same number, one without links has its own.
    pub island: i64,
    /// How many of its NVLinks are up.
    pub nvlinks: u32,
    /// Whether it is in MIG mode.
    pub mig: bool,
    /// Its virtual functions, if it can have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vfs: Option<Vfs>,
    /// The driver's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}
