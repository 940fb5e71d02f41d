//! Images on a small disk: bombs, the reserve, and eviction. Needs root, because the disk is a file system of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use muster_image::{Digest, Error, Footprint, Images, Limits, Shortage};

use crate::layout::{Layout, Packing, Tar};

const MIB: u64 = 1 << 20;

/// A file system of limited size, unmounted at the end of the test in any case.
struct SmallDisk {
    folder: tempfile::TempDir,
    layout: Layout,
}

impl SmallDisk {
    fn new(options: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&disk).status();
        assert!(mount.unwrap().success(), "run the tests of small disks as root");
        let layout = Layout::new(&folder.path().join("layout"));
        Self { folder, layout }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("disk")
    }

    fn images(&self) -> Images {
        Images::open(self.path().join("images")).unwrap()
    }

    /// Creates an image of `mib` MiB that compresses to almost nothing.
    fn image(&self, salt: u8, mib: u64) -> Digest {
        let tar = Tar::default().file("zeros", &vec![0; (mib * MIB) as usize]).file("salt", &[salt]);
        let layer = self.layout.layer(&tar.bytes(), Packing::Gzip);
        self.layout.manifest(&[layer], &serde_json::json!({}))
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.path()).unwrap();
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn limits(reserve_mib: u64, files: u64) -> Limits {
    Limits { free: Footprint { bytes: reserve_mib * MIB, files }, ..Limits::default() }
}

fn nobody(_: &Digest) -> bool {
    false
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn left_unfinished(disk: &Path) -> usize {
    fs::read_dir(disk.join("images/partial")).unwrap().count()
}

#[test]
fn a_bomb_is_stopped_at_the_reserve_its_space_is_back_and_other_images_are_unharmed() {
    let disk = SmallDisk::new("size=64m");
    let (images, limits, source) = (disk.images(), limits(16, 64), disk.layout.source());
    let good = disk.image(1, 4);
    images.ensure(&source, &good, &limits).unwrap();
    let (bomb, before) = (disk.image(2, 100), disk.free());
    let packed: u64 = fs::read_dir(disk.folder.path().join("layout/blobs/sha256"))
        .unwrap()
        .map(|blob| blob.unwrap().metadata().unwrap().len())
        .sum();
    assert!(packed < 2 * MIB, "{packed}");

    let refused = images.ensure(&source, &bomb, &limits).unwrap_err();
    assert!(refused.to_string().contains("use a smaller image or another node"), "{refused}");
    let Error::NoRoom { digest, short: Some(Shortage::Space { free, reserve, .. }) } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((digest, reserve), (bomb, 16 * MIB));
    assert!(free >= reserve, "the reserve was never touched: {free}");
    assert!(free < before, "some of it was written: {free}");

    // It would not fit even with every other image evicted, so none is.
    let refused = images.evict_for_image(&source, &bomb, &limits, &nobody).unwrap_err();
    assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
    assert_eq!((disk.free(), left_unfinished(&disk.path())), (before, 0));
    assert_eq!(images.list().unwrap(), [good]);
    assert_eq!(images.verify_tree(&good).unwrap(), Vec::<String>::new());
}

#[test]
fn a_bomb_of_empty_files_leaves_inodes_to_others() {
    let disk = SmallDisk::new("size=64m,nr_inodes=8192");
    let images = disk.images();
    let tar = (0..9000).fold(Tar::default(), |tar, file| tar.file(&file.to_string(), b""));
    let bomb = disk.layout.image(&[tar]);
    let refused = images.ensure(&disk.layout.source(), &bomb, &limits(1, 2048)).unwrap_err();
    let Error::NoRoom { short: Some(Shortage::Inodes { free, .. }), .. } = refused else {
        panic!("{refused:?}")
    };
    assert!((2048..8192).contains(&free), "{free}");
    assert_eq!(left_unfinished(&disk.path()), 0);
}

/// A full file system is neither an error of the image nor a crash.
#[test]
fn full_disk_is_reported_as_lack_of_room() {
    let disk = SmallDisk::new("size=8m");
    let (images, bomb) = (disk.images(), disk.image(1, 20));
    let refused = images.ensure(&disk.layout.source(), &bomb, &limits(0, 0)).unwrap_err();
    assert!(matches!(refused, Error::NoRoom { .. }), "{refused:?}");
    assert_eq!(left_unfinished(&disk.path()), 0);
}

#[test]
fn the_least_recently_used_image_is_evicted_first_also_after_a_restart() {
    let disk = SmallDisk::new("size=64m");
    let (limits, source) = (limits(8, 64), disk.layout.source());
    let [a, b, c] = [1, 2, 3].map(|salt| disk.image(salt, 14));
    let images = disk.images();
    for (digest, used) in [(a, 300), (b, 100), (c, 200)] {
        images.ensure(&source, &digest, &limits).unwrap();
        images.mark_used(&digest, at(used)).unwrap();
    }
    let images = disk.images();
    let new = disk.image(4, 14);
    assert!(matches!(images.ensure(&source, &new, &limits), Err(Error::NoRoom { .. })));
    images.evict_for_image(&source, &new, &limits, &nobody).unwrap();
    let here = |images: &Images| images.list().unwrap().into_iter().collect::<BTreeSet<_>>();
    assert_eq!(here(&images), BTreeSet::from([a, c]), "one was enough, and it is the oldest");
    images.ensure(&source, &new, &limits).unwrap();
    images.mark_used(&new, at(400)).unwrap();

    let half = Footprint { bytes: 20 * MIB, files: 1 };
    assert_eq!(images.evict_for(half, &limits, &nobody).unwrap(), None);
    assert_eq!(here(&images), BTreeSet::from([a, new]));
    let too_much = Footprint { bytes: 60 * MIB, files: 1 };
    assert!(images.evict_for(too_much, &limits, &nobody).unwrap().is_some());
    assert_eq!(here(&images), BTreeSet::from([a, new]), "it could not be enough, so nothing was evicted");
}

#[test]
fn an_image_that_a_cell_uses_or_a_start_holds_is_never_evicted() {
    let disk = SmallDisk::new("size=64m");
    let (limits, source) = (limits(8, 64), disk.layout.source());
    let [a, b, c] = [1, 2, 3].map(|salt| disk.image(salt, 10));
    let images = disk.images();
    for (digest, used) in [(a, 100), (b, 200), (c, 300)] {
        images.ensure(&source, &digest, &limits).unwrap();
        images.mark_used(&digest, at(used)).unwrap();
    }
    let uses_a = |digest: &Digest| *digest == a;
    let everything = Limits { free: Footprint { bytes: u64::MAX, files: 0 }, ..limits };
    let hold = images.hold(&b);
    images.evict_below_reserve(&everything, &uses_a).unwrap();
    assert_eq!(images.list().unwrap().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([a, b]));
    drop(hold);
    images.evict_below_reserve(&everything, &uses_a).unwrap();
    assert_eq!(images.list().unwrap(), [a]);
    assert_eq!(images.verify_tree(&a).unwrap(), Vec::<String>::new());
}

/// A start after the choice of images to evict still keeps its own.
#[test]
fn a_hold_counts_until_the_moment_of_the_eviction() {
    let disk = SmallDisk::new("size=64m");
    let (images, digest) = (disk.images(), disk.image(1, 4));
    images.ensure(&disk.layout.source(), &digest, &limits(8, 64)).unwrap();
    let everything = Limits { free: Footprint { bytes: u64::MAX, files: 0 }, ..Limits::default() };
    let hold = std::cell::RefCell::new(None);
    let start_meanwhile = |digest: &Digest| {
        hold.borrow_mut().get_or_insert_with(|| images.hold(digest));
        false
    };
    images.evict_below_reserve(&everything, &start_meanwhile).unwrap();
    assert!(hold.borrow().is_some());
    assert_eq!(images.list().unwrap(), [digest]);
}

/// One thread starts from an image repeatedly, another evicts unused ones.
#[test]
fn a_start_and_an_eviction_at_once_never_share_an_image() {
    let disk = SmallDisk::new("size=64m");
    let (images, reserve, source) = (disk.images(), limits(8, 64), disk.layout.source());
    let tar = (0..200).fold(Tar::default(), |tar, file| tar.file(&file.to_string(), b"content"));
    let digest = disk.layout.image(&[tar]);
    let everything = Limits { free: Footprint { bytes: u64::MAX, files: 0 }, ..Limits::default() };
    let (ended, passes) = (AtomicBool::new(false), AtomicU32::new(0));
    let unpacked = std::thread::scope(|scope| {
        let evicting = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                images.evict_below_reserve(&everything, &nobody).unwrap();
                passes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let starts = || {
            let mut unpacked = 0;
            for _ in 0..10 {
                // Without a hold a whole pass finds the image unused.
                let before = passes.load(Ordering::Relaxed);
                while passes.load(Ordering::Relaxed) < before + 2 {
                    std::thread::yield_now();
                }
                let _hold = images.hold(&digest);
                let image = images.ensure(&source, &digest, &reserve).map_err(|error| error.to_string())?;
                unpacked += u32::from(image.fresh);
                for file in 0..200 {
                    let path = image.rootfs.join(file.to_string());
                    fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                }
            }
            Ok::<u32, String>(unpacked)
        };
        let unpacked = starts();
        ended.store(true, Ordering::Relaxed);
        evicting.join().unwrap();
        unpacked
    });
    assert_eq!(unpacked, Ok(10), "it was evicted in between, each time");
}
