//! A test node that leaves nothing behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_disk::{DiskId, DiskState, Disks};

/// Folders for disks, removed at the end of the test in any case.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    /// Mount point of the file system with the disks.
    own: PathBuf,
    pub(crate) disks: Disks,
}

impl Node {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = fs::metadata(folder.path()).unwrap().uid();
        assert_eq!(own, 0, "these tests make loop devices and mounts: run them as root");
        let disks = Disks::open(folder.path().join("disks"), folder.path().join("run")).unwrap();
        Self { own: folder.path().to_owned(), folder, disks }
    }

    /// Returns a node with a file system of this size.
    pub(crate) fn small(mb: u64) -> Self {
        let mut node = Self::new();
        let (file, own) = (node.folder().join("file-system"), node.folder().join("own"));
        fs::File::create(&file).unwrap().set_len(mb << 20).unwrap();
        fs::create_dir(&own).unwrap();
        let formatted = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&file).status().unwrap();
        let mounted = Command::new("mount").args(["-o", "loop"]).args([&file, &own]).status().unwrap();
        assert!(formatted.success() && mounted.success());
        node.disks = Disks::open(own.join("disks"), node.folder().join("run")).unwrap();
        node.own = own;
        node
    }

    /// Returns the mount point of the disks' own file system.
    pub(crate) fn own(&self) -> &Path {
        &self.own
    }

    /// Makes a disk read-only, like the kernel after an error.
    pub(crate) fn make_read_only(&self, at: &Path) {
        let device = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let device = device.lines().find(|line| line.contains(at.to_str().unwrap())).unwrap();
        let device = device.rsplit_once("/dev/").unwrap().1.split(' ').next().unwrap().to_owned();
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(trigger, "a test's own error").unwrap();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the file of a disk in this state.
    pub(crate) fn file(&self, id: &DiskId, state: DiskState) -> PathBuf {
        let suffix = match state {
            DiskState::New => "new",
            DiskState::Ready => "disk",
            DiskState::Wiping => "wiping",
            DiskState::Wiped => "wiped",
        };
        self.own.join(format!("disks/{id}.{suffix}"))
    }

    /// Returns loop devices and mounts of this folder, from the system's own tools.
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
    /// The order matters: a loop device of a lazily unmounted file system is no longer found by its path, and stays.
    fn drop(&mut self) {
        let here = self.folder().to_str().unwrap().to_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts = mounts.lines().rev().filter_map(|line| line.split(' ').nth(4));
        let (own, disks): (Vec<&str>, Vec<&str>) =
            mounts.filter(|at| at.starts_with(&here)).partition(|at| Path::new(at) == self.own);
        unmount(&disks);
        let loops = Command::new("losetup")
            .args(["--list", "--noheadings", "--output", "NAME,AUTOCLEAR,BACK-FILE"])
            .output();
        let loops =
            loops.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for line in loops.lines().filter(|line| line.contains(&here)) {
            let mut words = line.split_whitespace();
            // The kernel releases the others with their mount, and may then give them to another test.
            if let (Some(device), Some("0")) = (words.next(), words.next()) {
                let _ = Command::new("losetup").args(["--detach", device]).status();
            }
        }
        unmount(&own);
        if std::thread::panicking() {
            return;
        }
        // The kernel keeps a device until the last program that looks at it closes it.
        let is_clean = || self.outside_view().is_empty();
        assert!(eventually(is_clean), "left behind: {:#?}", self.outside_view());
    }
}

/// Unmounts, once no program uses it any more.
fn unmount(mounts: &[&str]) {
    for at in mounts {
        eventually(|| {
            Command::new("umount").args(["--quiet", at]).status().is_ok_and(|ended| ended.success())
        });
    }
}

/// Reports whether it holds within some seconds.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    (0..250).any(|_| {
        let now = holds();
        if !now {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        now
    })
}

pub(crate) fn id(text: &str) -> DiskId {
    text.parse().unwrap()
}
