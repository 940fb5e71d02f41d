//! PCI devices that matter to a GPU cloud.

use muster_wire::inventory::{PciDevice, Vfs};

use super::tree::Tree;

const FOLDER: &str = "sys/bus/pci/devices";

/// Listed classes, by prefix: network (including InfiniBand), display and 3D, processing accelerators, NVMe, and
/// InfiniBand's other class.
const CLASSES: [&str; 5] = ["02", "03", "12", "0108", "0c06"];

pub(super) fn read(tree: &Tree<'_>) -> Vec<PciDevice> {
    // Sorting by name sorts by address: all fields have a fixed width, except domains beyond four digits.
    tree.names(FOLDER).into_iter().filter_map(|address| device(tree, address)).collect()
}

fn device(tree: &Tree<'_>, address: String) -> Option<PciDevice> {
    let path = |file: &str| format!("{FOLDER}/{address}/{file}");
    let hex = |file: &str| Some(tree.text(&path(file))?.trim_start_matches("0x").to_ascii_lowercase());
    let class = hex("class")?;
    // A virtual function links to its physical function, which counts it.
    if !CLASSES.iter().any(|prefix| class.starts_with(prefix)) || tree.has(&path("physfn")) {
        return None;
    }
    let vfs = tree
        .number(&path("sriov_totalvfs"))
        .map(|total| Vfs { total, active: tree.number(&path("sriov_numvfs")).unwrap_or_default() });
    Some(PciDevice {
        vendor: hex("vendor").unwrap_or_default(),
        device: hex("device").unwrap_or_default(),
        class,
        driver: tree.target(&path("driver")),
        numa: tree.number(&path("numa_node")).filter(|node| *node >= 0),
        vfs,
        address,
    })
}

/// Reports whether a name is a PCI address: domain, bus, device and function.
pub(super) fn is_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let shaped = name.matches(':').count() == 2 && name.matches('.').count() == 1;
    let hex = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit());
    shaped && parts.len() == 4 && parts.iter().all(hex)
}

/// Converts an NVML address, with an eight-digit domain in capitals, to the form in `/sys`.
pub(super) fn address(nvml: &str) -> String {
    let lower = nvml.trim().to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if domain.len() > 4 => {
            let domain = domain.trim_start_matches('0');
            format!("{domain:0>4}:{rest}")
        }
        _ => lower,
    }
}

#[cfg(test)]
mod tests {
    use super::{address, is_address};

    #[test]
    fn addresses_are_told_from_other_names() {
        assert!(is_address("0000:18:00.0"));
        assert!(is_address("10000:e1:00.0"));
        for other in ["pci0000:00", "virtio2", "0000:18", "net", "00.00.00:0", ""] {
            assert!(!is_address(other), "{other}");
        }
    }

    #[test]
    fn nvmls_addresses_become_the_kernels() {
        assert_eq!(address("00000000:18:00.0"), "0000:18:00.0");
        assert_eq!(address("00000009:0A:00.0"), "0009:0a:00.0");
        assert_eq!(address("00010000:E1:00.0"), "10000:e1:00.0");
        assert_eq!(address("0000:18:00.0"), "0000:18:00.0");
    }
}
