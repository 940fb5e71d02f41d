//! A power loss at any point, and the state after it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use muster_disk::{DiskState, Disks, Point};

use crate::node::{Node, id};

/// Returns disks that stop at this point, without another step.
fn stopping_at(disks: &Disks, point: Point) -> Disks {
    disks.clone().reaching(move |reached| {
        if reached == point {
            std::panic::panic_any("the power is gone");
        }
    })
}

#[test]
fn a_disk_is_made_whole_after_a_crash_at_any_point() {
    for point in [Point::FileMade, Point::Formatted, Point::Named, Point::Attached, Point::Mounted] {
        let node = Node::new();
        let id = id("alc_crash");
        let stopped = catch_unwind(AssertUnwindSafe(|| stopping_at(&node.disks, point).make(&id, 64)));
        assert!(stopped.is_err(), "{point:?} was not reached");
        assert_eq!(node.disks.make(&id, 64).unwrap(), 64, "{point:?}");
        fs::write(node.disks.mount_point(&id).join("file"), "content").unwrap();
        let survey = node.disks.survey().unwrap();
        assert_eq!((survey.files.len(), survey.mounts.len(), survey.loops.len()), (1, 1, 1), "{point:?}");
        node.disks.detach(&id).unwrap();
        node.disks.wipe(&id).unwrap();
        assert!(node.disks.remove(&id).unwrap());
        assert_eq!(node.disks.survey().unwrap(), muster_disk::Survey::default(), "{point:?}");
        assert_eq!(node.outside_view(), Vec::<String>::new(), "{point:?}");
    }
}

#[test]
fn unfinished_disk_can_be_removed() {
    for point in [Point::FileMade, Point::Formatted] {
        let node = Node::new();
        let id = id("alc_unfinished");
        let stopped = catch_unwind(AssertUnwindSafe(|| stopping_at(&node.disks, point).make(&id, 64)));
        assert!(stopped.is_err());
        assert!(node.disks.remove(&id).unwrap());
        assert_eq!(node.disks.leftovers(&id).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_disk_that_was_only_half_grown_is_grown_when_it_is_made_again() {
    let node = Node::new();
    let id = id("alc_half");
    node.disks.make(&id, 64).unwrap();
    let stopped =
        catch_unwind(AssertUnwindSafe(|| stopping_at(&node.disks, Point::Lengthened).grow(&id, 128)));
    assert!(stopped.is_err());
    assert_eq!(node.disks.make(&id, 128).unwrap(), 128);
    let system = rustix::fs::statvfs(node.disks.mount_point(&id)).unwrap();
    assert!(system.f_blocks * system.f_frsize > 110 << 20, "{}", system.f_blocks * system.f_frsize);
}

#[test]
fn a_wipe_is_finished_after_a_crash_at_any_point() {
    for point in [Point::Marked, Point::Overwritten(1), Point::Synced, Point::ReadAgain] {
        let node = Node::new();
        let id = id("alc_wipe");
        node.disks.make(&id, 64).unwrap();
        fs::write(node.disks.mount_point(&id).join("file"), vec![7; 1 << 20]).unwrap();
        node.disks.detach(&id).unwrap();
        let stopped = catch_unwind(AssertUnwindSafe(|| stopping_at(&node.disks, point).wipe(&id)));
        assert!(stopped.is_err(), "{point:?} was not reached");
        let look = node.disks.look(&id).unwrap().unwrap();
        assert_eq!(look.state, DiskState::Wiping, "{point:?}");
        assert!(node.disks.make(&id, 64).is_err(), "{point:?}: half a disk must not come back");
        assert!(node.disks.remove(&id).is_err(), "{point:?}");
        node.disks.wipe(&id).unwrap();
        assert_eq!(node.disks.residue(&id).unwrap(), Vec::<String>::new());
        assert!(node.disks.remove(&id).unwrap());
        assert_eq!(node.disks.leftovers(&id).unwrap(), Vec::<String>::new());
    }
}
