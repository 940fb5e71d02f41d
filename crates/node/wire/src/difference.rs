//! The hardware facts that an operator approves, and the differences found later.
//!
//! Digests and differences derive from one list of facts, so two inventories have equal digests exactly when no difference
//! is shown. The list excludes values that change on a restart, an update or by the platform's own work, without a hardware
//! change: names, kernel, link states, active virtual functions, and GPU ordinals, which shift with their neighbours. The GPU
//! driver and the specifications of devices are facts, because cells get their files. Amounts are rounded to whole GiB,
//! because each kernel and GPU driver reserves a few MiB more or less.

use sha2::Digest as _;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::inventory::{Gpu, Inventory, Reserved, Vfs};

/// Name of the fact that GPUs are simulated. Approved digests are stored with this word; the shown word is another one.
const SIMULATED: &str = "pretended";

/// One difference between approved and found hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// The component, and the fact of it that changed if the component is still present.
    #[schema(example = "gpu GPU-8f3d2c11-6a0e-4c8e-9a55-0d6b7f1e2a34")]
    pub what: String,
    /// Approved value; absent if the component is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// Found value; absent if the component is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
}

impl Inventory {
    /// Returns the SHA-256 digest over the facts that an operator approves, in hexadecimal.
    pub fn hardware_digest(&self) -> String {
        let mut text = Vec::new();
        for (what, facts) in things(self, &uuids(self)) {
            for fact in facts {
                // Length prefixes keep two different lists of facts from producing the same bytes.
                for word in [what.as_str(), fact.name, &fact.counts] {
                    text.extend((word.len() as u64).to_be_bytes());
                    text.extend(word.as_bytes());
                }
            }
        }
        sha2::Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the components removed, added or changed since the approval, by name.
pub fn difference(approved: &Inventory, found: &Inventory) -> Vec<Change> {
    let both: BTreeSet<&str> = uuids(approved).intersection(&uuids(found)).copied().collect();
    let (was, is) = (things(approved, &both), things(found, &both));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let mut changes = Vec::new();
    for what in names {
        match (was.get(what), is.get(what)) {
            (Some(was), Some(is)) => {
                // Components of one kind have the same facts in the same order, whatever their values.
                for (was, is) in was.iter().zip(is).filter(|(was, is)| was.counts != is.counts) {
                    changes.push(Change {
                        what: if what == SIMULATED {
                            "simulated".to_owned()
                        } else if was.name.is_empty() {
                            what.clone()
                        } else {
                            format!("{what} {}", was.name)
                        },
                        was: Some(was.shown.clone()),
                        is: Some(is.shown.clone()),
                    });
                }
            }
            (was, is) => changes.push(Change {
                what: what.clone(),
                was: was.map(|facts| summary(facts)),
                is: is.map(|facts| summary(facts)),
            }),
        }
    }
    changes
}

/// One fact about a component.
struct Fact {
    /// Name of the fact; empty if the component itself is the fact.
    name: &'static str,
    /// Value that is compared.
    counts: String,
    /// Value that is displayed.
    shown: String,
}

fn fact(name: &'static str, value: impl ToString) -> Fact {
    let value = value.to_string();
    Fact { name, counts: value.clone(), shown: value }
}

fn amount(name: &'static str, mb: i64) -> Fact {
    Fact { name, counts: mb.saturating_add(512).div_euclid(1024).to_string(), shown: mb.to_string() }
}

fn word(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn vfs(vfs: Option<Vfs>) -> Fact {
    fact("vfs", vfs.map_or(0, |vfs| vfs.total))
}

fn summary(facts: &[Fact]) -> String {
    let parts: Vec<String> =
        facts.iter().map(|fact| format!("{} {}", fact.name, fact.shown).trim().to_owned()).collect();
    parts.join(", ")
}

fn uuids(inventory: &Inventory) -> BTreeSet<&str> {
    inventory.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect()
}

/// Returns every compared fact by its component's display name. Only the GPUs in `among` count as island neighbours: with
/// the GPUs present in both inventories, a missing GPU is one change, not one for each neighbour.
fn things(inventory: &Inventory, among: &BTreeSet<&str>) -> BTreeMap<String, Vec<Fact>> {
    let Inventory { cpus, .. } = inventory;
    let sockets = if cpus.sockets == 1 { "socket" } else { "sockets" };
    let mut things = BTreeMap::from([
        ("architecture".to_owned(), vec![fact("", &inventory.architecture)]),
        (
            "cpus".to_owned(),
            vec![fact("", format!("{} in {} {sockets}, {}", cpus.count, cpus.sockets, cpus.model))],
        ),
        ("memory_mb".to_owned(), vec![amount("", inventory.memory_mb)]),
        ("disk_mb".to_owned(), vec![amount("", inventory.disk_mb)]),
        (SIMULATED.to_owned(), vec![fact("", inventory.simulated)]),
    ]);
    if inventory.reserved != Reserved::default() {
        let Reserved { cpus, memory_mb } = inventory.reserved;
        // Not rounded: an operator sets it.
        things.insert("reserved".to_owned(), vec![fact("cpus", cpus), fact("memory_mb", memory_mb)]);
    }
    // A NUMA node's memory is part of the total, which is compared above.
    things.extend(
        inventory.numa.iter().map(|node| (format!("numa {}", node.ordinal), vec![fact("cpus", &node.cpus)])),
    );
    things.extend(inventory.pci.iter().map(|device| {
        let kind = fact("device", format!("{}:{}", device.vendor, device.device));
        let facts =
            vec![kind, fact("class", &device.class), fact("numa", word(device.numa)), vfs(device.vfs)];
        (format!("pci {}", device.address), facts)
    }));
    things.extend(inventory.network.iter().map(|device| {
        let facts =
            vec![fact("mac", &device.mac), fact("pci", word(device.pci.as_ref())), fact("rdma", device.rdma)];
        (format!("network {}", device.name), facts)
    }));
    things.extend(inventory.gpus.iter().map(|gpu| {
        let facts = vec![
            fact("model", &gpu.model),
            amount("memory_mb", gpu.memory_mb),
            fact("pci", word(gpu.pci.as_ref())),
            fact("numa", gpu.numa),
            fact("island", neighbours(inventory, gpu, among)),
            fact("mig", gpu.mig),
            vfs(gpu.vfs),
        ];
        (format!("gpu {}", gpu.uuid), facts)
    }));
    // A driver and its specification decide what a cell gets of the node, so an update is approved like new hardware.
    if let Some(gpu) = inventory.gpus.iter().find(|gpu| gpu.driver.is_some()) {
        let facts = vec![fact("version", word(gpu.driver.as_ref())), fact("cuda", word(gpu.cuda.as_ref()))];
        things.insert("gpu driver".to_owned(), facts);
    }
    things.extend(inventory.device_specs.iter().map(|spec| {
        let facts = vec![fact("origin", &spec.origin), fact("digest", &spec.digest)];
        (format!("device spec {}", spec.kind), facts)
    }));
    for gpu in &inventory.gpus {
        things.extend(gpu.mig_instances.iter().map(|instance| {
            let facts = vec![fact("profile", &instance.profile), fact("gpu", &gpu.uuid)];
            (format!("mig {}", instance.uuid), facts)
        }));
    }
    things
}

/// Islands are compared by their GPUs: their ordinals shift when an earlier one is missing.
fn neighbours(inventory: &Inventory, gpu: &Gpu, among: &BTreeSet<&str>) -> String {
    let others: BTreeSet<&str> = inventory
        .gpus
        .iter()
        .filter(|other| other.island == gpu.island && other.uuid != gpu.uuid)
        .map(|other| other.uuid.as_str())
        .filter(|uuid| among.contains(uuid))
        .collect();
    if others.is_empty() {
        return "alone".to_owned();
    }
    format!("with {}", others.into_iter().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::{Change, SIMULATED, difference};
    use crate::inventory::{
        Cpus, DeviceSpec, Gpu, Inventory, MigInstance, NetworkDevice, NumaNode, PciDevice, Reserved, Vfs,
    };

    /// Returns a machine with four GPUs in two islands and one network device.
    fn machine() -> Inventory {
        let gpu = |ordinal: i64| Gpu {
            ordinal,
            uuid: format!("GPU-{ordinal}"),
            model: "NVIDIA H200".into(),
            memory_mb: 143_771,
            pci: Some(format!("0000:{ordinal}8:00.0")),
            numa: ordinal / 2,
            island: ordinal / 2,
            nvlinks: 18,
            mig: false,
            vfs: Some(Vfs { total: 16, active: 0 }),
            driver: Some("580.159.04".into()),
            cuda: Some("13.0".into()),
            ..Gpu::default()
        };
        Inventory {
            hostname: "a".into(),
            kernel: "6.8".into(),
            os: "Ubuntu".into(),
            architecture: "x86_64".into(),
            boot_id: "1".into(),
            cpus: Cpus { count: 192, sockets: 2, model: "EPYC".into() },
            memory_mb: 2_063_000,
            disk_mb: 900_000,
            reserved: Reserved::default(),
            numa: vec![NumaNode { ordinal: 0, cpus: "0-191".into(), memory_mb: 2_063_000 }],
            pci: vec![PciDevice {
                address: "0000:3b:00.0".into(),
                vendor: "15b3".into(),
                device: "1021".into(),
                class: "020000".into(),
                driver: Some("mlx5_core".into()),
                numa: Some(0),
                vfs: Some(Vfs { total: 8, active: 0 }),
            }],
            network: vec![NetworkDevice {
                name: "ens1".into(),
                mac: "94:6d:ae:00:00:01".into(),
                mtu: 1500,
                speed_mbps: Some(400_000),
                state: "up".into(),
                driver: Some("mlx5_core".into()),
                pci: Some("0000:3b:00.0".into()),
                rdma: true,
            }],
            gpus: (0..4).map(gpu).collect(),
            device_specs: vec![DeviceSpec {
                kind: "nvidia.com/gpu".into(),
                origin: "agent".into(),
                digest: "0a".into(),
            }],
            simulated: false,
            notes: vec![],
        }
    }

    /// Returns the differences after a change to the machine, and asserts that the digests agree with them.
    fn after(change: impl FnOnce(&mut Inventory)) -> Vec<(String, Option<String>, Option<String>)> {
        let (approved, mut found) = (machine(), machine());
        change(&mut found);
        let changes = difference(&approved, &found);
        assert_eq!(changes.is_empty(), approved.hardware_digest() == found.hardware_digest(), "{changes:?}");
        changes.into_iter().map(|Change { what, was, is }| (what, was, is)).collect()
    }

    fn line(what: &str, was: &str, is: &str) -> (String, Option<String>, Option<String>) {
        (what.to_owned(), Some(was.to_owned()), Some(is.to_owned()))
    }

    #[test]
    fn a_restart_an_update_and_a_lost_link_are_no_change() {
        let changes = after(|found| {
            found.hostname = "b".into();
            found.kernel = "6.11".into();
            found.os = "Ubuntu 26.04".into();
            found.boot_id = "2".into();
            found.notes = vec!["something".into()];
            found.memory_mb -= 60;
            found.numa[0].memory_mb -= 60;
            found.pci[0].driver = None;
            found.pci[0].vfs = Some(Vfs { total: 8, active: 8 });
            found.network[0].state = "down".into();
            found.network[0].speed_mbps = None;
            found.network[0].mtu = 9000;
            found.gpus[0].nvlinks = 17;
            found.gpus[0].memory_mb -= 60;
        });
        assert_eq!(changes, []);
    }

    #[test]
    fn a_gpu_that_is_gone_is_one_change_however_the_others_are_numbered() {
        let changes = after(|found| {
            found.gpus.remove(0);
            for (ordinal, gpu) in (0..).zip(&mut found.gpus) {
                gpu.ordinal = ordinal;
            }
        });
        let was = "model NVIDIA H200, memory_mb 143771, pci 0000:08:00.0, numa 0, island with GPU-1, mig false, vfs 16";
        assert_eq!(changes, [("gpu GPU-0".to_owned(), Some(was.to_owned()), None)]);

        let whole_island = after(|found| {
            found.gpus.drain(..2);
            for gpu in &mut found.gpus {
                gpu.island -= 1;
            }
        });
        assert_eq!(
            whole_island.iter().map(|change| change.0.as_str()).collect::<Vec<_>>(),
            ["gpu GPU-0", "gpu GPU-1"]
        );
    }

    #[test]
    fn another_gpu_in_its_place_is_one_gone_and_one_added() {
        let changes = after(|found| found.gpus[3].uuid = "GPU-9".into());
        let names: Vec<_> =
            changes.iter().map(|(what, was, is)| (what.as_str(), was.is_some(), is.is_some())).collect();
        assert_eq!(names, [("gpu GPU-3", true, false), ("gpu GPU-9", false, true)]);
    }

    #[test]
    fn facts_that_changed_are_named_one_by_one() {
        let changes = after(|found| {
            found.memory_mb -= 65_536;
            found.cpus.count = 96;
            found.cpus.sockets = 1;
            found.gpus[1].island = 7;
            found.gpus[2].mig = true;
            found.network[0].mac = "94:6d:ae:00:00:02".into();
        });
        assert_eq!(
            changes,
            [
                line("cpus", "192 in 2 sockets, EPYC", "96 in 1 socket, EPYC"),
                line("gpu GPU-0 island", "with GPU-1", "alone"),
                line("gpu GPU-1 island", "with GPU-0", "alone"),
                line("gpu GPU-2 mig", "false", "true"),
                line("memory_mb", "2063000", "1997464"),
                line("network ens1 mac", "94:6d:ae:00:00:01", "94:6d:ae:00:00:02"),
            ]
        );
    }

    #[test]
    fn another_driver_or_specification_is_a_change() {
        let changes = after(|found| {
            for gpu in &mut found.gpus {
                gpu.driver = Some("590.1".into());
            }
            found.device_specs[0].origin = "/etc/cdi/nvidia.yaml".into();
            found.device_specs[0].digest = "0b".into();
        });
        let expected = [
            line("device spec nvidia.com/gpu origin", "agent", "/etc/cdi/nvidia.yaml"),
            line("device spec nvidia.com/gpu digest", "0a", "0b"),
            line("gpu driver version", "580.159.04", "590.1"),
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn mig_instances_are_components_of_their_own() {
        let changes = after(|found| {
            found.gpus[0].mig_instances = vec![MigInstance {
                uuid: "MIG-1".into(),
                profile: "1g.18gb".into(),
                memory_mb: 16_384,
                gpu_instance: 7,
                compute_instance: 0,
            }];
        });
        assert_eq!(changes, [("mig MIG-1".to_owned(), None, Some("profile 1g.18gb, gpu GPU-0".to_owned()))]);
    }

    #[test]
    fn another_reserve_is_a_change_to_the_last_mebibyte() {
        let reserve =
            |memory_mb| move |found: &mut Inventory| found.reserved = Reserved { cpus: 6, memory_mb };
        let changes = after(reserve(16_384));
        assert_eq!(changes, [("reserved".to_owned(), None, Some("cpus 6, memory_mb 16384".to_owned()))]);
        let (mut approved, mut found) = (machine(), machine());
        reserve(16_384)(&mut approved);
        reserve(16_385)(&mut found);
        assert_eq!(difference(&approved, &found).len(), 1);
        assert_ne!(approved.hardware_digest(), found.hardware_digest());
    }

    #[test]
    fn an_inventory_of_an_earlier_build_is_read_and_its_change_has_the_new_word() {
        let mut stored = serde_json::to_value(machine()).unwrap();
        let fields = stored.as_object_mut().unwrap();
        let simulated = fields.remove("simulated").unwrap();
        fields.insert(SIMULATED.to_owned(), simulated);
        assert_eq!(serde_json::from_value::<Inventory>(stored).unwrap(), machine());
        assert_eq!(after(|found| found.simulated = true), [line("simulated", "false", "true")]);
    }

    #[test]
    fn the_digest_stays_what_it_was_when_it_was_approved() {
        // Stored digests outlive this code: a change here requires operators to approve every node again.
        assert_eq!(
            machine().hardware_digest(),
            "8039c71133d054c9de5b208f1d8baa26579cc0360c6762aa2f1efc100dd03d03"
        );
    }
}
