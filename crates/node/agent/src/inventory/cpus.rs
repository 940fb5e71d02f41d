//! CPU inventory.

use std::collections::BTreeSet;

use muster_wire::inventory::Cpus;

use super::tree::Tree;

pub(super) fn read(tree: &Tree<'_>, notes: &mut Vec<String>) -> Cpus {
    let info = tree.needed("proc/cpuinfo", notes);
    let online = tree.text("sys/devices/system/cpu/online").map(|list| parse_list(&list)).unwrap_or_default();
    let listed = values(&info, "processor").count();
    let count = if online.is_empty() { listed } else { online.len() };
    let mut packages: BTreeSet<String> = online
        .iter()
        .filter_map(|cpu| tree.text(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id")))
        .collect();
    if packages.is_empty() {
        packages = values(&info, "physical id").map(str::to_owned).collect();
    }
    Cpus {
        count: i64::try_from(count).unwrap_or(i64::MAX),
        // Some virtual machines report no package; count them as one socket.
        sockets: i64::try_from(packages.len().max(1)).unwrap_or(1),
        model: model(&info),
    }
}

/// Returns the model. ARM kernels report two numbers instead of a name.
fn model(info: &str) -> String {
    if let Some(name) = values(info, "model name").next() {
        return name.to_owned();
    }
    match (values(info, "CPU implementer").next(), values(info, "CPU part").next()) {
        (Some(implementer), Some(part)) => format!("implementer {implementer} part {part}"),
        _ => String::new(),
    }
}

/// Returns the values of a key in `/proc/cpuinfo`.
fn values<'a>(info: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(move |(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

/// Parses the kernel's list format, such as `0-3,8`. Non-numbers are skipped.
pub(super) fn parse_list(list: &str) -> Vec<u32> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{model, parse_list};

    #[test]
    fn the_kernels_lists_are_understood() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("0"), [0]);
        assert!(parse_list("").is_empty());
        assert!(parse_list("none").is_empty());
    }

    #[test]
    fn a_processor_without_a_name_is_told_by_its_numbers() {
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
        assert_eq!(model(arm), "implementer 0x41 part 0xd4f");
        assert_eq!(model("model name\t: AMD EPYC\n"), "AMD EPYC");
    }
}
