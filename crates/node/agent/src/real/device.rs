//! GPUs as device nodes: the exact files that a cell needs to use one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use muster_cell::Device;
use muster_wire::inventory::Inventory;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::settings::Settings;
use crate::inventory::FAKE_GPU_PREFIX;

/// Device major numbers reserved for local use. One without a driver has no device behind it, so opening it returns ENXIO if
/// allowed and EPERM if not.
const LOCAL: [std::ops::RangeInclusive<u32>; 3] = [240..=254, 120..=127, 60..=63];

/// Device nodes of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Simulated: a node without a device.
    Simulated {
        /// Major number without a driver.
        major: u32,
        /// Its number.
        minor: u32,
    },
    /// NVIDIA, by its number in `/dev`.
    Nvidia {
        /// Its number.
        minor: u32,
    },
}

/// Returns the device nodes of the GPUs in an inventory. `proc` is the directory with the driver's information.
pub fn nodes(inventory: &Inventory, proc: &Path) -> BTreeMap<String, Node> {
    let real = nvidia_minors(proc);
    let major = number_without_driver(&fs::read_to_string(proc.join("devices")).unwrap_or_default());
    let node = |(index, gpu): (usize, &muster_wire::inventory::Gpu)| {
        let node = match real.get(&gpu.uuid) {
            Some(minor) => Node::Nvidia { minor: *minor },
            None if gpu.uuid.starts_with(FAKE_GPU_PREFIX) => {
                Node::Simulated { major, minor: u32::try_from(index).unwrap_or(u32::MAX) }
            }
            None => return None,
        };
        Some((gpu.uuid.clone(), node))
    };
    inventory.gpus.iter().enumerate().filter_map(node).collect()
}

/// Returns a local major number that no driver in `/proc/devices` has taken.
fn number_without_driver(devices: &str) -> u32 {
    let characters = devices.split("Block devices:").next().unwrap_or_default();
    let number = |line: &str| line.split_whitespace().next()?.parse::<u32>().ok();
    let taken: Vec<u32> = characters.lines().filter_map(number).collect();
    LOCAL.into_iter().flatten().find(|major| !taken.contains(major)).unwrap_or(60)
}

/// Maps UUIDs to minor numbers, from NVIDIA's `/proc/driver/nvidia/gpus/*/information`.
fn nvidia_minors(proc: &Path) -> BTreeMap<String, u32> {
    let Ok(folders) = fs::read_dir(proc.join("driver/nvidia/gpus")) else { return BTreeMap::new() };
    let read = |folder: fs::DirEntry| {
        let text = fs::read_to_string(folder.path().join("information")).ok()?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches(':').trim().to_owned())
        };
        Some((value("GPU UUID")?, value("Device Minor")?.parse().ok()?))
    };
    folders.flatten().filter_map(read).collect()
}

impl Settings {
    fn simulated_node(&self, major: u32, minor: u32) -> PathBuf {
        self.folder.join("devices").join(format!("simulated-{major}-{minor}"))
    }

    /// Returns the device nodes for these GPUs.
    pub(super) fn device_nodes(&self, devices: &[String]) -> Result<Vec<Device>, String> {
        let mut given = Vec::new();
        let mut nvidia = false;
        for uuid in devices {
            match self.devices.get(uuid) {
                None => return Err(format!("the node has no device {uuid}")),
                Some(Node::Simulated { major, minor }) => given.push(Device {
                    source: self.simulated_node(*major, *minor),
                    target: format!("/dev/simulated{minor}"),
                    major: *major,
                    minor: *minor,
                }),
                Some(Node::Nvidia { minor }) => {
                    nvidia = true;
                    given.push(existing(&format!("/dev/nvidia{minor}"))?);
                }
            }
        }
        if nvidia {
            // Nodes shared by all NVIDIA GPUs; none gives access to a GPU without its own node.
            for shared in ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"] {
                if Path::new(shared).exists() {
                    given.push(existing(shared)?);
                }
            }
        }
        Ok(given)
    }
}

impl Settings {
    /// Overwrites a device's memory, and verifies it. A simulated device has none.
    pub(super) fn wipe_device(&self, device: &str) -> Result<(), String> {
        match self.devices.get(device) {
            None => Err("the device is missing".to_owned()),
            Some(Node::Simulated { .. }) => Ok(()),
            Some(Node::Nvidia { .. }) => wipe_in_a_process(device),
        }
    }
}

/// Wipes in a child process: a process that uses a GPU holds memory of it until it ends.
fn wipe_in_a_process(device: &str) -> Result<(), String> {
    let program =
        std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut wipe = std::process::Command::new(program);
    wipe.args(["agent", "wipe-device", device]).env_clear().stdin(std::process::Stdio::null());
    let done = wipe.output().map_err(|error| format!("the wipe cannot be started: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(said.trim().chars().take(500).collect())
}

fn existing(path: &str) -> Result<Device, String> {
    let facts = rustix::fs::stat(path).map_err(|error| format!("{path}: {error}"))?;
    let (major, minor) = (rustix::fs::major(facts.st_rdev), rustix::fs::minor(facts.st_rdev));
    Ok(Device { source: path.into(), target: path.to_owned(), major, minor })
}

/// Creates the nodes of simulated GPUs if they are missing.
pub(super) fn make_simulated(settings: &Settings) -> Result<(), String> {
    let folder = settings.folder.join("devices");
    for node in settings.devices.values() {
        let Node::Simulated { major, minor } = node else { continue };
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let path = settings.simulated_node(*major, *minor);
        // Processes in a cell are other users on the node; the control group decides about access.
        let mode = Mode::from_raw_mode(0o666);
        match mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(*major, *minor)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(format!("{}: it cannot be created: {error}", path.display())),
        }
        rustix::fs::chmod(&path, mode).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_wire::inventory::Gpu;

    /// Contents that NVIDIA's driver writes below `/proc`.
    fn with_driver(proc: &Path, gpus: &[(&str, u32)]) {
        for (number, (uuid, minor)) in gpus.iter().enumerate() {
            let folder = proc.join(format!("driver/nvidia/gpus/0000:{number:02x}:00.0"));
            fs::create_dir_all(&folder).unwrap();
            let text = format!(
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 52\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
            );
            fs::write(folder.join("information"), text).unwrap();
        }
    }

    #[test]
    fn a_gpu_has_the_node_that_the_driver_lists_and_one_that_it_does_not_list_has_none() {
        let proc = tempfile::tempdir().unwrap();
        fs::write(
            proc.path().join("devices"),
            "Character devices:\n  1 mem\n240 taken\n\nBlock devices:\n241 x\n",
        )
        .unwrap();
        // The order of the bus is not that of the minors.
        with_driver(proc.path(), &[("GPU-b", 1), ("GPU-a", 0), ("GPU-c", 7)]);
        let gpu = |uuid: &str| Gpu {
            ordinal: 0,
            uuid: uuid.to_owned(),
            model: String::new(),
            memory_mb: 1,
            pci: None,
            numa: 0,
            island: 0,
            nvlinks: 0,
            mig: false,
            ..Gpu::default()
        };
        let gpus = ["GPU-a", "GPU-b", "GPU-unlisted", "GPU-simulated-x"].map(gpu).to_vec();
        let inventory = Inventory { gpus, ..Inventory::default() };
        let expected = [
            ("GPU-a", Node::Nvidia { minor: 0 }),
            ("GPU-b", Node::Nvidia { minor: 1 }),
            ("GPU-simulated-x", Node::Simulated { major: 241, minor: 3 }),
        ];
        let expected = expected.map(|(uuid, node)| (uuid.to_owned(), node)).into();
        assert_eq!(nodes(&inventory, proc.path()), expected);
        fs::remove_dir_all(proc.path().join("driver")).unwrap();
        assert_eq!(nodes(&inventory, proc.path()).len(), 1, "without the driver only the simulated one");
    }
}
