//! Disks as allocations use them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use muster_disk::{DiskState, Error};

use crate::node::{Node, id};

/// Writes until the disk is full; returns the number of bytes written.
fn fill(path: &Path) -> (u64, io::Error) {
    let mut file = File::create(path).unwrap();
    let chunk = vec![0xa5; 1 << 20];
    let mut written = 0;
    loop {
        match file.write(&chunk) {
            Ok(length) => written += length as u64,
            Err(error) => return (written, error),
        }
    }
}

#[test]
fn a_tenant_that_writes_more_than_its_disk_fills_its_own_and_not_the_nodes() {
    let node = Node::new();
    let id = id("alc_full");
    assert_eq!(node.disks.make(&id, 80).unwrap(), 80);
    let at = node.disks.mount_point(&id);
    let (written, error) = fill(&at.join("everything"));
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!((64 << 20..80 << 20).contains(&written), "{written}");
    let file = fs::metadata(node.file(&id, DiskState::Ready)).unwrap();
    assert_eq!(file.len(), 80 << 20);
    assert!(file.blocks() * 512 <= (80 << 20) + (1 << 20), "the node gave {} bytes", file.blocks() * 512);
    let look = node.disks.look(&id).unwrap().unwrap();
    assert_eq!((look.state, look.mounted, look.size_mb), (DiskState::Ready, true, 80));
    assert!(look.used_mb.unwrap() >= written >> 20, "{look:?}");
}

#[test]
fn an_allocation_without_a_disk_has_a_small_one() {
    let node = Node::new();
    let id = id("alc_none");
    assert_eq!(node.disks.make(&id, 0).unwrap(), 64);
    let (written, _) = fill(&node.disks.mount_point(&id).join("layer"));
    assert!(written >= 50 << 20, "{written}");
}

#[test]
fn a_disk_has_all_its_blocks_from_the_start_and_keeps_them_and_the_wipe_skips_what_was_never_written() {
    let node = Node::new();
    let id = id("alc_blocks");
    node.disks.make(&id, 256).unwrap();
    let taken = || node.disks.look(&id).unwrap().unwrap().taken_mb;
    assert!(taken() >= 256, "{}", taken());
    node.disks.grow(&id, 300).unwrap();
    assert!(taken() >= 300, "{}", taken());
    fs::write(node.disks.mount_point(&id).join("file"), vec![7; 5 << 20]).unwrap();
    node.disks.detach(&id).unwrap();
    let wiped = node.disks.wipe(&id).unwrap();
    assert!((5 << 20..40 << 20).contains(&wiped.overwritten), "{wiped:?}");
    assert!(wiped.read_again >= wiped.overwritten, "{wiped:?}");
    assert!(fs::read(node.file(&id, DiskState::Wiped)).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_node_without_room_refuses_a_disk_in_a_sentence_and_nothing_of_it_is_left() {
    let node = Node::small(200);
    let id = id("alc_no_room");
    let error = node.disks.make(&id, 300).unwrap_err();
    assert!(matches!(error, Error::NoSpace { mb: 300, .. }), "{error}");
    assert!(error.to_string().contains("the node's disk has no space"), "{error}");
    assert_eq!(node.disks.survey().unwrap(), muster_disk::Survey::default());
    node.disks.make(&id, 64).unwrap();
    assert!(matches!(node.disks.grow(&id, 300), Err(Error::NoSpace { .. })));
    assert_eq!(node.disks.look(&id).unwrap().unwrap().size_mb, 64);
    assert_eq!(node.disks.grow(&id, 100).unwrap(), 100, "what did not fit is free again");
}

#[test]
fn a_test_that_leaves_its_disk_attached_leaves_no_loop_device() {
    let node = Node::small(100);
    let id = id("alc_attached");
    node.disks.make(&id, 64).unwrap();
    let is_ours = |line: &&String| line.starts_with("/dev/loop");
    let devices: Vec<String> = node.outside_view().iter().filter(is_ours).cloned().collect();
    assert_eq!(devices.len(), 2, "its own and that of the file system below: {devices:?}");
    let own = node.own().to_str().unwrap().to_owned();
    drop(node);
    for line in devices {
        let device = line.split_whitespace().next().unwrap().trim_start_matches("/dev/");
        let file = fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).unwrap_or_default();
        // Another test may have it by now.
        assert!(!file.contains("alc_attached") && !file.starts_with(&own), "{device}: {file}");
    }
}

#[test]
fn a_full_node_fails_no_write_of_a_disk() {
    let node = Node::small(200);
    let id = id("alc_full_node");
    node.disks.make(&id, 80).unwrap();
    fill(&node.own().join("everything"));
    let at = node.disks.mount_point(&id);
    let mut file = File::create(at.join("state")).unwrap();
    file.write_all(&vec![0xa5; 60 << 20]).unwrap();
    file.sync_all().unwrap();
    rustix::fs::syncfs(File::open(&at).unwrap()).unwrap();
    drop(file);
    let look = node.disks.look(&id).unwrap().unwrap();
    assert!(!look.read_only, "{look:?}");
    fs::write(at.join("more"), "it goes on").unwrap();
    node.disks.detach(&id).unwrap();
    node.disks.wipe(&id).unwrap();
    assert!(node.disks.remove(&id).unwrap());
}

#[test]
fn a_disk_that_an_error_made_read_only_is_seen_and_repaired_when_nobody_uses_it() {
    let node = Node::new();
    let id = id("alc_read_only");
    node.disks.make(&id, 64).unwrap();
    let at = node.disks.mount_point(&id);
    fs::write(at.join("state"), "kept").unwrap();
    rustix::fs::syncfs(File::open(&at).unwrap()).unwrap();
    let open = File::open(at.join("state")).unwrap();
    node.make_read_only(&at);
    assert!(fs::write(at.join("more"), "").is_err());
    assert!(node.disks.look(&id).unwrap().unwrap().read_only);
    assert_eq!(node.disks.read_only().unwrap(), std::slice::from_ref(&id));
    assert!(matches!(node.disks.repair(&id), Err(Error::Busy { .. })));
    drop(open);
    node.disks.repair(&id).unwrap();
    assert!(!node.disks.look(&id).unwrap().unwrap().read_only);
    fs::write(at.join("more"), "it goes on").unwrap();
    assert_eq!(fs::read_to_string(at.join("state")).unwrap(), "kept");
    node.disks.repair(&id).unwrap();
}

#[test]
fn made_twice_it_is_the_same_disk() {
    let node = Node::new();
    let id = id("alc_twice");
    node.disks.make(&id, 64).unwrap();
    let at = node.disks.mount_point(&id);
    fs::write(at.join("state"), "kept").unwrap();
    let before = node.outside_view();
    assert_eq!(before.len(), 2, "{before:?}");
    node.disks.make(&id, 64).unwrap();
    assert_eq!(node.outside_view(), before);
    let other = node.disks.make(&id, 65).unwrap_err();
    assert!(matches!(other, Error::Size { has_mb: 64, asked_mb: 65, .. }), "{other}");
    node.disks.detach(&id).unwrap();
    node.disks.make(&id, 64).unwrap();
    assert_eq!(fs::read_to_string(at.join("state")).unwrap(), "kept", "it outlives a restart of the node");
}

#[test]
fn neither_devices_nor_set_user_id_programs_work_from_a_disk() {
    let node = Node::new();
    let id = id("alc_flags");
    node.disks.make(&id, 64).unwrap();
    let at = node.disks.mount_point(&id);
    let made =
        Command::new("mknod").args([at.join("null").to_str().unwrap(), "c", "1", "3"]).status().unwrap();
    assert!(made.success() && fs::metadata(at.join("null")).unwrap().file_type().is_char_device());
    assert_eq!(File::open(at.join("null")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.contains(at.to_str().unwrap())).unwrap();
    assert!(line.contains("nosuid") && line.contains("nodev") && !line.contains("discard"), "{line}");
}

/// Reports whether root here has the usual capabilities of a node's root.
fn may_resize_mounted() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & (1 << 24) != 0
}

#[test]
fn a_disk_grows_while_it_is_in_use_or_says_why_it_cannot() {
    let node = Node::new();
    let id = id("alc_grow");
    node.disks.make(&id, 64).unwrap();
    let at = node.disks.mount_point(&id);
    let mut open = File::create(at.join("open")).unwrap();
    let grown = node.disks.grow(&id, 200);
    if may_resize_mounted() {
        assert_eq!(grown.unwrap(), 200);
        open.write_all(b"still the same").unwrap();
    } else {
        let error = grown.unwrap_err().to_string();
        assert!(error.contains("CAP_SYS_RESOURCE") && error.contains("process"), "{error}");
        open.write_all(b"still there").unwrap();
        assert_eq!(node.disks.look(&id).unwrap().unwrap().size_mb, 64, "what was refused changed nothing");
    }
    drop(open);
    assert_eq!(node.disks.grow(&id, 200).unwrap(), 200);
    assert_eq!(node.disks.grow(&id, 200).unwrap(), 200);
    let (written, _) = fill(&at.join("everything"));
    assert!(written > 150 << 20, "{written}");
    assert_eq!(node.disks.look(&id).unwrap().unwrap().size_mb, 200);
    assert_eq!(node.disks.make(&id, 200).unwrap(), 200);
    assert!(matches!(node.disks.grow(&id, 100), Err(Error::Size { has_mb: 200, .. })));
}

#[test]
fn a_disk_shrinks_only_while_nobody_uses_it_and_what_is_cut_off_was_overwritten() {
    let node = Node::new();
    let id = id("alc_shrink");
    node.disks.make(&id, 200).unwrap();
    let at = node.disks.mount_point(&id);
    fs::write(at.join("state"), "kept").unwrap();
    fill(&at.join("everything"));
    fs::remove_file(at.join("everything")).unwrap();
    let error = node.disks.shrink(&id, 100).unwrap_err().to_string();
    assert!(error.contains("still in use by the mount at"), "{error}");
    node.disks.detach(&id).unwrap();
    assert_eq!(node.disks.shrink(&id, 100).unwrap(), 100);
    assert_eq!(fs::metadata(node.file(&id, DiskState::Ready)).unwrap().len(), 100 << 20);
    node.disks.make(&id, 100).unwrap();
    assert_eq!(fs::read_to_string(at.join("state")).unwrap(), "kept");
}

#[test]
fn a_disk_in_use_stays_and_it_says_who_uses_it() {
    let node = Node::new();
    let id = id("alc_busy");
    node.disks.make(&id, 64).unwrap();
    let at = node.disks.mount_point(&id);
    let open = File::create(at.join("open")).unwrap();
    let error = node.disks.detach(&id).unwrap_err().to_string();
    let own = format!("process {} (", std::process::id());
    assert!(error.contains(&own), "{error}");
    assert!(node.disks.look(&id).unwrap().unwrap().mounted);
    let error = node.disks.wipe(&id).unwrap_err().to_string();
    assert!(error.contains("detach it"), "{error}");
    drop(open);
    node.disks.detach(&id).unwrap();
    node.disks.detach(&id).unwrap();
    assert_eq!(node.outside_view(), Vec::<String>::new());
    assert!(!at.exists());
}

#[test]
fn an_overlay_over_a_disk_keeps_it_in_use() {
    let node = Node::new();
    let id = id("alc_overlay");
    node.disks.make(&id, 64).unwrap();
    let at = node.disks.mount_point(&id);
    for folder in ["upper", "work"] {
        fs::create_dir(at.join(folder)).unwrap();
    }
    let (lower, merged) = (node.folder().join("lower"), node.folder().join("merged"));
    fs::create_dir(&lower).unwrap();
    fs::create_dir(&merged).unwrap();
    let here = at.display();
    let layers = format!("lowerdir={},upperdir={here}/upper,workdir={here}/work", lower.display());
    let arguments = ["-t", "overlay", "overlay", "-o", &layers, merged.to_str().unwrap()];
    assert!(Command::new("mount").args(arguments).status().unwrap().success());
    let error = node.disks.detach(&id).unwrap_err().to_string();
    assert!(error.contains(&format!("the mount at {}", merged.display())), "{error}");
    assert!(Command::new("umount").arg(&merged).status().unwrap().success());
    node.disks.detach(&id).unwrap();
    assert_eq!(node.outside_view(), Vec::<String>::new());
}

#[test]
fn a_survey_shows_what_the_kernel_shows() {
    let node = Node::new();
    let (one, two) = (id("alc_one"), id("alc_two"));
    node.disks.make(&one, 64).unwrap();
    node.disks.make(&two, 64).unwrap();
    node.disks.detach(&two).unwrap();
    fs::write(node.folder().join("disks/stranger"), "").unwrap();
    let survey = node.disks.survey().unwrap();
    let files: Vec<_> = survey.files.iter().map(|file| (file.id.as_str(), file.state)).collect();
    assert_eq!(files, [("alc_one", DiskState::Ready), ("alc_two", DiskState::Ready)]);
    assert_eq!(survey.mounts.len(), 1);
    assert_eq!(survey.mounts[0].at, node.disks.mount_point(&one));
    assert_eq!(survey.loops.len(), 1);
    assert_eq!(survey.strange, [node.folder().join("disks/stranger")]);
    assert_eq!(node.disks.leftovers(&one).unwrap().len(), 3);
    assert_eq!(node.disks.leftovers(&two).unwrap().len(), 1);
    assert_eq!(node.disks.leftovers(&id("alc_never")).unwrap(), Vec::<String>::new());
}
