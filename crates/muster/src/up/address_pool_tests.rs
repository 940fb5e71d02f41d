use super::*;
use crate::up::record::{Nodes, Record};
use crate::up::testbed::Testbed;

/// A separate machine for a test.
fn machine(folder: &Path) -> Blocks {
    Blocks { folder: folder.join("run/muster/blocks") }
}

/// Creates a data folder with a record of this block.
fn data(folder: &Path, name: &str, block: u8, raised: bool) -> PathBuf {
    let data = folder.join(name);
    let testbed = Testbed { key: name.to_owned(), block, run: folder.join("run"), raised };
    Nodes::make(&data).unwrap().write(&Record { nodes: 1, kind: Kind::Cells(testbed) }).unwrap();
    data
}

#[test]
fn a_block_is_one_platforms_while_it_runs_and_for_as_long_as_its_record_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = machine(folder.path());
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    // Before its record is written, the lock protects it in every namespace.
    let held = blocks.claim(0, &one).unwrap().unwrap();
    assert!(blocks.claim(0, &two).unwrap().is_none());
    assert!(blocks.claim(1, &two).unwrap().is_some(), "the next one is free");
    data(folder.path(), "one", 0, true);
    drop(held);
    // It no longer runs, but its cells exist.
    assert!(blocks.claim(0, &two).unwrap().is_none());
    let again = blocks.claim(0, &one).unwrap().unwrap();
    assert!(blocks.give_back(0, &one).is_err(), "it is held");
    drop(again);
    blocks.give_back(0, &two).unwrap();
    assert!(blocks.claim(0, &two).unwrap().is_none(), "nobody gives back what is another's");
    blocks.give_back(0, &one).unwrap();
    assert!(blocks.claim(0, &two).unwrap().is_some());
}

#[test]
fn a_block_whose_platform_is_gone_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = machine(folder.path());
    let two = folder.path().join("two");
    let taken = |owner: &Path| {
        drop(blocks.claim(3, owner).unwrap().unwrap());
        blocks.claim(3, &two).unwrap().is_none()
    };
    assert!(taken(&data(folder.path(), "lives", 3, true)));
    blocks.give_back(3, &folder.path().join("lives")).unwrap();
    assert!(!taken(&data(folder.path(), "down", 3, false)), "nothing of it is there any more");
    assert!(!taken(&data(folder.path(), "elsewhere", 4, true)), "it has another by now");
    assert!(!taken(&folder.path().join("deleted")));
    let damaged = data(folder.path(), "damaged", 3, true);
    fs::write(damaged.join("nodes/up.json"), "{").unwrap();
    assert!(taken(&damaged), "nobody knows what is there");
}

#[test]
fn the_last_block_takes_the_folder_along_and_the_next_makes_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = machine(folder.path());
    let one = folder.path().join("one");
    drop(blocks.claim(0, &one).unwrap().unwrap());
    drop(blocks.claim(1, &one).unwrap().unwrap());
    blocks.give_back(0, &one).unwrap();
    assert!(blocks.folder.exists());
    blocks.give_back(1, &one).unwrap();
    assert!(!folder.path().join("run/muster").exists());
    blocks.give_back(1, &one).unwrap();
    assert!(blocks.claim(1, &one).unwrap().is_some());
    let mode = folder.path().join("run/muster").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o711, "cells get through");
}
