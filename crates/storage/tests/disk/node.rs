//! A node of a test's own, which leaves nothing behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_storage::{DiskId, DiskState, Disks};

/// Folders for disks, gone with the test, however it ends.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    pub(crate) disks: Disks,
}

impl Node {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = fs::metadata(folder.path()).unwrap().uid();
        assert_eq!(own, 0, "these tests make loop devices and mounts: run them as root");
        let disks = Disks::open(folder.path().join("disks"), folder.path().join("run")).unwrap();
        Self { folder, disks }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file of a disk in this state.
    pub(crate) fn file(&self, id: &DiskId, state: DiskState) -> PathBuf {
        let suffix = match state {
            DiskState::New => "new",
            DiskState::Ready => "disk",
            DiskState::Wiping => "wiping",
            DiskState::Wiped => "wiped",
        };
        self.folder().join(format!("disks/{id}.{suffix}"))
    }

    /// Loop devices and mounts that belong to this folder, by the system's own tools.
    pub(crate) fn outside_view(&self) -> Vec<String> {
        let here = self.folder().to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let loops = Command::new("losetup").args(["--list", "--noheadings", "--raw"]).output().unwrap();
        let loops = String::from_utf8(loops.stdout).unwrap();
        let lines = mounts.lines().chain(loops.lines()).filter(|line| line.contains(here));
        lines.map(str::to_owned).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let here = self.folder().to_str().unwrap().to_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for line in mounts.lines().rev().filter(|line| line.contains(&here)) {
            let at = line.split(' ').nth(4).unwrap_or_default();
            let _ = Command::new("umount").args(["--lazy", at]).status();
        }
        let loops =
            Command::new("losetup").args(["--list", "--noheadings", "--output", "NAME,BACK-FILE"]).output();
        let loops =
            loops.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for line in loops.lines().filter(|line| line.contains(&here)) {
            let device = line.split_whitespace().next().unwrap_or_default();
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

pub(crate) fn id(text: &str) -> DiskId {
    text.parse().unwrap()
}
