//! Residue of a tenant after its disk was wiped: none, and a false report is caught.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use muster_disk::{DiskId, DiskState, Error, Point};

use crate::node::{Node, id};

const CANARY: &[u8] = b"the secret of tenant forty-two";

/// Counts the canary in a file, independent of file systems.
fn sightings(path: &Path) -> usize {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes.windows(CANARY.len()).filter(|window| *window == CANARY).count()
}

/// A disk that a tenant has used: written, removed and overwritten files.
fn used(node: &Node, id: &DiskId) {
    node.disks.make(id, 64).unwrap();
    let at = node.disks.mount_point(id);
    fs::create_dir(at.join("folder")).unwrap();
    for file in 0..20 {
        fs::write(at.join("folder").join(file.to_string()), CANARY.repeat(1000)).unwrap();
    }
    fs::write(at.join("removed"), CANARY.repeat(1000)).unwrap();
    rustix_sync(&at);
    fs::remove_file(at.join("removed")).unwrap();
    node.disks.detach(id).unwrap();
}

/// Flushes a mounted disk's content into its file.
fn rustix_sync(at: &Path) {
    rustix::fs::syncfs(File::open(at).unwrap()).unwrap();
}

#[test]
fn a_tenants_secret_is_in_the_file_before_the_wipe_and_not_after() {
    let node = Node::new();
    let id = id("alc_secret");
    used(&node, &id);
    let file = node.file(&id, DiskState::Ready);
    assert!(sightings(&file) > 20 * 900, "even what was removed: {}", sightings(&file));
    assert!(!node.disks.residue(&id).unwrap().is_empty());
    let error = node.disks.remove(&id).unwrap_err().to_string();
    assert!(error.contains("wipe it before"), "{error}");

    let wiped = node.disks.wipe(&id).unwrap();
    assert!(wiped.overwritten > 20 * 30_000 && wiped.read_again >= wiped.overwritten, "{wiped:?}");
    let file = node.file(&id, DiskState::Wiped);
    assert_eq!(sightings(&file), 0);
    assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(node.disks.residue(&id).unwrap(), Vec::<String>::new());
    let error = node.disks.make(&id, 64).unwrap_err().to_string();
    assert!(error.contains("never mounted again"), "{error}");

    assert!(node.disks.remove(&id).unwrap());
    assert!(!node.disks.remove(&id).unwrap());
    assert_eq!(node.disks.leftovers(&id).unwrap(), Vec::<String>::new());
    assert_eq!(node.outside_view(), Vec::<String>::new());
    assert!(
        matches!(node.disks.residue(&id), Err(Error::Absent(_))),
        "who asks for nothing gets no all-clear"
    );
}

#[test]
fn a_wipe_that_left_one_extent_is_no_wipe() {
    let node = Node::new();
    let id = id("alc_planted");
    used(&node, &id);
    let wiping = node.file(&id, DiskState::Wiping);
    let faulty = node.disks.clone().reaching(move |point| {
        if point == Point::Synced {
            // As if this part had been skipped.
            let file = OpenOptions::new().write(true).open(&wiping).unwrap();
            file.write_all_at(CANARY, 12 << 20).unwrap();
        }
    });
    let error = faulty.wipe(&id).unwrap_err();
    let Error::Residue { residue, .. } = &error else { panic!("{error}") };
    let said = format!("{} bytes from {} on", CANARY.len(), 12 << 20);
    assert!(residue.len() == 1 && residue[0].contains(&said), "{residue:?}");
    assert_eq!(node.disks.look(&id).unwrap().unwrap().state, DiskState::Wiping);
    assert!(node.disks.remove(&id).is_err(), "it cannot be removed either");
    assert_eq!(node.disks.residue(&id).unwrap().len(), 1, "and whoever looks sees it too");
    node.disks.wipe(&id).unwrap();
    assert!(node.disks.remove(&id).unwrap());
}

#[test]
fn disk_falsely_marked_as_wiped_is_detected_by_residue() {
    let node = Node::new();
    let id = id("alc_liar");
    used(&node, &id);
    fs::rename(node.file(&id, DiskState::Ready), node.file(&id, DiskState::Wiped)).unwrap();
    assert!(!node.disks.residue(&id).unwrap().is_empty());
}

#[test]
fn a_single_byte_anywhere_is_residue() {
    let node = Node::new();
    let id = id("alc_byte");
    used(&node, &id);
    node.disks.wipe(&id).unwrap();
    let file = OpenOptions::new().write(true).open(node.file(&id, DiskState::Wiped)).unwrap();
    for place in [0, 4095, (32 << 20) + 7, (64 << 20) - 1] {
        file.write_all_at(&[1], place).unwrap();
        let residue = node.disks.residue(&id).unwrap();
        assert!(
            residue.len() == 1 && residue[0].contains(&format!("1 bytes from {place} on")),
            "{residue:?}"
        );
        file.write_all_at(&[0], place).unwrap();
    }
}
