//! GPU inventory from NVML. The library is loaded at run time, so a machine without it runs the same agent.

use std::fmt::Display;

use muster_wire::inventory::{Gpu, NumaNode, PciDevice};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT;
use nvml_wrapper::{Device, Nvml};

use super::islands::{End, Linked, islands};
use super::pci::address;

/// More links than any GPU has; NVML rejects numbers beyond a GPU's own.
const MOST_LINKS: u32 = 36;

const NVIDIA: &str = "10de";

pub(super) fn read(pci: &[PciDevice], numa: &[NumaNode], notes: &mut Vec<String>) -> Vec<Gpu> {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(error) => {
            let reason = match error {
                NvmlError::LibloadingError(error) => error.to_string(),
                error => error.to_string(),
            };
            notes.push(format!("NVML is not there: {reason}."));
            return Vec::new();
        }
    };
    let driver = nvml.sys_driver_version().ok();
    let count = nvml.device_count().unwrap_or_else(|error| {
        notes.push(format!("NVML does not count the GPUs: {error}."));
        0
    });
    let mut gpus = Vec::new();
    let mut links = Vec::new();
    for index in 0..count {
        match nvml.device_by_index(index).and_then(|device| gpu(&device, index, notes)) {
            Ok((gpu, linked)) => {
                let place = pci.iter().find(|device| device.address == linked.pci);
                let nearest = place.and_then(|device| device.numa).or_else(|| only(numa));
                let (numa, vfs) = (nearest.unwrap_or(-1), place.and_then(|device| device.vfs));
                gpus.push(Gpu { numa, vfs, driver: driver.clone(), ..gpu });
                links.push(linked);
            }
            Err(error) => notes.push(format!("GPU {index} could not be read: {error}.")),
        }
    }
    for (gpu, island) in gpus.iter_mut().zip(islands(&links)) {
        gpu.island = island;
    }
    gpus
}

/// Notes NVIDIA display devices on the bus that are missing from the GPUs: one fell off the bus, or another driver holds it.
pub(super) fn note_unseen(pci: &[PciDevice], gpus: &[Gpu], notes: &mut Vec<String>) {
    let seen =
        |device: &PciDevice| gpus.iter().any(|gpu| gpu.pci.as_deref() == Some(device.address.as_str()));
    for device in pci.iter().filter(|device| device.vendor == NVIDIA && device.class.starts_with("03")) {
        if !seen(device) {
            let driver = device.driver.as_deref().unwrap_or("none");
            notes.push(format!(
                "{} is an NVIDIA GPU that NVML does not list; its driver: {driver}.",
                device.address
            ));
        }
    }
}

/// Returns the only NUMA node, if there is just one: every device is attached to it, whether or not the firmware reports it.
fn only(numa: &[NumaNode]) -> Option<i64> {
    match numa {
        [node] => Some(node.ordinal),
        _ => None,
    }
}

/// Reads a GPU and its link targets from NVML.
fn gpu(device: &Device<'_>, index: u32, notes: &mut Vec<String>) -> Result<(Gpu, Linked), NvmlError> {
    let pci = address(&device.pci_info()?.bus_id);
    let mut unknown = |what: &str, error: &dyn Display| notes.push(format!("GPU {index}: {what}: {error}."));
    let mig = match device.mig_mode() {
        Ok(mode) => mode.current == 1,
        Err(NvmlError::NotSupported) => false,
        Err(error) => {
            unknown("its MIG mode is unknown", &error);
            false
        }
    };
    let ends = ends(device, &mut unknown);
    let gpu = Gpu {
        ordinal: i64::from(index),
        uuid: device.uuid()?,
        model: device.name()?,
        memory_mb: i64::try_from(device.memory_info()?.total / (1 << 20)).unwrap_or(i64::MAX),
        pci: Some(pci.clone()),
        numa: -1,
        island: 0,
        nvlinks: u32::try_from(ends.len()).unwrap_or(u32::MAX),
        mig,
        ..Gpu::default()
    };
    Ok((gpu, Linked { pci, ends }))
}

/// Returns the remote ends of the active links. The wrapper's `remote_device_type` always returns "unknown" (it drops NVML's
/// value), so a switch is recognized by an address that is no GPU's, or by the count of links to switches.
fn ends(device: &Device<'_>, unknown: &mut dyn FnMut(&str, &dyn Display)) -> Vec<End> {
    let mut ends = Vec::new();
    for number in 0..MOST_LINKS {
        let link = device.link_wrapper_for(number);
        match link.is_active() {
            Ok(true) => {}
            // `NotSupported`: a link that the GPU lacks or that is hidden from a virtual machine. `InvalidArg`: beyond the
            // last link.
            Ok(false) | Err(NvmlError::NotSupported | NvmlError::InvalidArg) => continue,
            Err(error) => {
                unknown(&format!("the state of NVLink {number} is unknown"), &error);
                continue;
            }
        }
        ends.push(match link.remote_pci_info() {
            Ok(info) => End::Device(address(&info.bus_id)),
            Err(_) if leads_to_switches(device) => End::Switch,
            Err(error) => {
                unknown(&format!("NVLink {number} is up but does not report its remote end"), &error);
                End::Unknown
            }
        });
    }
    ends
}

fn leads_to_switches(device: &Device<'_>) -> bool {
    use nvml_wrapper::enums::device::SampleValue;
    let field = FieldId(NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT);
    let value = device.field_values_for(&[field]).ok().and_then(|mut values| values.pop()?.ok()?.value.ok());
    matches!(value, Some(SampleValue::U32(count)) if count > 0)
}

#[cfg(test)]
mod tests {
    use muster_wire::inventory::{NumaNode, PciDevice};

    use super::{note_unseen, only};

    #[test]
    fn a_gpu_that_nvml_does_not_show_is_noted() {
        let device = |class: &str, vendor: &str| PciDevice {
            address: "0000:18:00.0".into(),
            vendor: vendor.into(),
            device: "2335".into(),
            class: class.into(),
            driver: Some("vfio-pci".into()),
            numa: None,
            vfs: None,
        };
        let mut notes = Vec::new();
        note_unseen(
            &[device("030200", "10de"), device("020000", "10de"), device("030000", "1a03")],
            &[],
            &mut notes,
        );
        assert_eq!(notes, ["0000:18:00.0 is an NVIDIA GPU that NVML does not list; its driver: vfio-pci."]);
    }

    #[test]
    fn only_a_single_numa_node_can_be_taken_for_granted() {
        let node = |ordinal| NumaNode { ordinal, cpus: "0".into(), memory_mb: 1 };
        assert_eq!(only(&[node(0)]), Some(0));
        assert_eq!(only(&[node(0), node(1)]), None);
    }
}
