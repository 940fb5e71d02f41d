//! NUMA nodes.

use muster_wire::inventory::NumaNode;

use super::system::total_mb;
use super::tree::Tree;

const FOLDER: &str = "sys/devices/system/node";

pub(super) fn read(tree: &Tree<'_>, memory_mb: i64, notes: &mut Vec<String>) -> Vec<NumaNode> {
    let mut nodes: Vec<NumaNode> = tree
        .names(FOLDER)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .map(|ordinal: i64| NumaNode {
            ordinal,
            cpus: tree.text(&format!("{FOLDER}/node{ordinal}/cpulist")).unwrap_or_default(),
            memory_mb: tree
                .text(&format!("{FOLDER}/node{ordinal}/meminfo"))
                .and_then(|text| total_mb(&text))
                .unwrap_or_default(),
        })
        // Some platforms reserve numbers for device memory; such a node is empty.
        .filter(|node| !node.cpus.is_empty() || node.memory_mb > 0)
        .collect();
    nodes.sort_by_key(|node| node.ordinal);
    // Memory in a virtual machine's balloon is missing from the node but not from the total, and it varies.
    if let [only] = &mut nodes[..] {
        only.memory_mb = memory_mb;
    }
    if nodes.is_empty() {
        notes.push("The kernel names no NUMA nodes: the machine counts as one.".to_owned());
        let cpus = tree.text("sys/devices/system/cpu/online").unwrap_or_default();
        nodes.push(NumaNode { ordinal: 0, cpus, memory_mb });
    }
    nodes
}
