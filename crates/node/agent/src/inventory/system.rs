//! Operating system and memory.

use super::tree::Tree;

/// Returns the distribution's name for itself.
pub(super) fn os(tree: &Tree<'_>, notes: &mut Vec<String>) -> String {
    let Some(text) = tree.text("etc/os-release").or_else(|| tree.text("usr/lib/os-release")) else {
        notes.push("There is no os-release file that names the distribution.".to_owned());
        return String::new();
    };
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches(['"', '\'']).to_owned())
    };
    value("PRETTY_NAME").or_else(|| value("NAME")).unwrap_or_default()
}

/// Returns the memory available to the kernel, in MiB.
pub(super) fn memory_mb(tree: &Tree<'_>, notes: &mut Vec<String>) -> i64 {
    let text = tree.needed("proc/meminfo", notes);
    total_mb(&text).unwrap_or_default()
}

/// Parses `MemTotal` in the format of `/proc/meminfo`; a NUMA node's file has `Node 0` before the word.
pub(super) fn total_mb(meminfo: &str) -> Option<i64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: i64 = line.split("MemTotal:").nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::total_mb;

    #[test]
    fn memory_is_read_in_both_of_the_kernels_forms() {
        assert_eq!(total_mb("MemTotal:       24684100 kB\nMemFree:  1 kB"), Some(24_105));
        assert_eq!(total_mb("Node 1 MemFree: 5 kB\nNode 1 MemTotal:       2048 kB"), Some(2));
        assert_eq!(total_mb("MemFree: 5 kB"), None);
    }
}
