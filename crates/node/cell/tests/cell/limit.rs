//! Limits of the cells of an allocation.

use std::fs;
use std::path::Path;

use muster_cell::Limits;
use serde_json::json;

use crate::site::Site;

#[test]
fn limits_are_the_kernels_and_can_be_changed_while_cells_run() {
    let site = Site::new();
    let seen = site.cells.group_look(site.allocation);
    assert!(seen.present);
    assert_eq!((seen.millicpus, seen.memory, seen.processes), (Some(2_000), Some(256 << 20), Some(4_096)));
    let cell = site.run(1, json!({}));
    site.cells.group_resize(site.allocation, Limits::new(1, 128).unwrap()).unwrap();
    let seen = site.cells.group_look(site.allocation);
    assert_eq!((seen.millicpus, seen.memory), (Some(1_000), Some(128 << 20)));
    assert!(seen.memory_used > 0);
    // The kernel's own file, if this machine has it.
    let quota =
        Path::new("/sys/fs/cgroup/cpu").join(&site.settings.cgroup_root).join(site.allocation.to_string());
    if quota.is_dir() {
        assert_eq!(fs::read_to_string(quota.join("cpu.cfs_quota_us")).unwrap().trim(), "100000");
    }
    site.destroy(cell);
    site.cells.group_remove(site.allocation).unwrap();
    assert!(!site.cells.group_look(site.allocation).present);
    site.cells.group_remove(site.allocation).unwrap();
}

#[test]
fn exceeding_the_memory_limit_kills_the_exceeding_process_alone() {
    let site = Site::new();
    site.cells.group_resize(site.allocation, Limits::new(1, 48).unwrap()).unwrap();
    let (one, two) = (site.run(1, json!({})), site.run(2, json!({})));
    let (code, _) = site.shell(one, "dd if=/dev/zero of=/dev/null bs=16M count=1");
    assert_eq!(code, 0, "what fits is allowed");
    let (code, text) = site.shell(one, "dd if=/dev/zero of=/dev/null bs=120M count=1");
    assert_eq!(code, 137, "{text}");
    assert!(site.cells.look(one).unwrap().present && site.cells.look(two).unwrap().present);
    assert_eq!(site.say(two, "echo alive"), "alive");
}

#[test]
fn a_cell_sees_itself_at_the_root_of_its_groups() {
    let site = Site::new();
    let cell = site.run(1, json!({}));
    let groups = site.say(cell, "cat /proc/self/cgroup");
    assert!(groups.lines().all(|line| line.ends_with(":/")), "{groups}");
}
