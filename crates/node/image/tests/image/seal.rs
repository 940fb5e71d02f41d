//! Images that are modified after they were unpacked.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;

use muster_image::{Digest, Error, Image, Images, Limits};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::canary::quick_folder;
use crate::layout::{Layout, Tar};

struct Node {
    folder: tempfile::TempDir,
    layout: Layout,
    images: Images,
}

fn node() -> Node {
    // On a disk, like real images.
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(&folder.path().join("layout"));
    let images = Images::open(folder.path().join("images")).unwrap();
    Node { folder, layout, images }
}

impl Node {
    fn ensure(&self, digest: &Digest) -> Result<Image, Error> {
        self.images.ensure(&self.layout.source(), digest, &Limits::default())
    }

    fn image(&self) -> Digest {
        let tar = Tar::default()
            .file("usr/bin/tool", b"do no harm")
            .hard_link("usr/bin/other", "usr/bin/tool")
            .file("usr/lib/a file", b"library")
            .symlink("bin", "usr/bin");
        self.layout.image(&[tar])
    }

    /// Asserts that it is refused once with this text, and then repaired.
    fn refuses(&self, digest: &Digest, message: &str) {
        let error = self.ensure(digest).expect_err("it was changed");
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(self.images.lookup(digest).unwrap(), None, "nobody is given it any more");
        let anew = self.ensure(digest).unwrap();
        assert!(anew.fresh);
        assert_eq!(self.images.verify_tree(digest).unwrap(), Vec::<String>::new());
    }

    fn aside(&self) -> usize {
        fs::read_dir(self.folder.path().join("images/aside")).map(Iterator::count).unwrap_or_default()
    }
}

/// Changes one byte and restores size and time, to hide the change.
fn flip(path: &Path) {
    let before = fs::metadata(path).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(before.atime(), before.atime_nsec()),
        last_modification: time(before.mtime(), before.mtime_nsec()),
    };
    utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
    let after = fs::metadata(path).unwrap();
    assert_eq!((before.size(), before.mtime(), before.ino()), (after.size(), after.mtime(), after.ino()));
}

#[test]
fn a_flipped_byte_is_seen_at_the_next_start_although_size_and_time_were_put_back() {
    let node = node();
    let digest = node.image();
    let tool = node.ensure(&digest).unwrap().rootfs.join("usr/bin/tool");
    assert!(!node.ensure(&digest).unwrap().fresh, "what nobody touched is found");
    flip(&tool);
    assert_eq!(node.images.check(&digest).unwrap(), Vec::<String>::new(), "its facts are as they were");
    node.refuses(&digest, "/usr/bin/tool is (f");
    assert_eq!(node.aside(), 1);
}

#[test]
fn every_way_to_change_an_image_is_seen() {
    let node = node();
    let digest = node.image();
    type Change<'c> = (&'c str, &'c dyn Fn(&Path));
    let changes: &[Change<'_>] = &[
        ("/usr/bin/new was added", &|root| fs::write(root.join("usr/bin/new"), b"").unwrap()),
        ("/usr/lib/a file is gone", &|root| fs::remove_file(root.join("usr/lib/a file")).unwrap()),
        ("/bin is (l", &|root| {
            fs::remove_file(root.join("bin")).unwrap();
            symlink("usr/lib", root.join("bin")).unwrap();
        }),
        ("/usr/bin/tool is (f 4755", &|root| {
            let mode = fs::Permissions::from_mode(0o4755);
            fs::set_permissions(root.join("usr/bin/tool"), mode).unwrap();
        }),
        // The file itself is unmodified: only its name leads elsewhere.
        ("/usr/lib/a file is (f", &|root| {
            fs::rename(root.join("usr/bin/other"), root.join("usr/lib/a file")).unwrap();
        }),
        ("the record of the tree", &|root| {
            flip(&root.join("usr/bin/tool"));
            fs::write(root.with_file_name("tree"), b"").unwrap();
        }),
    ];
    for (message, change) in changes {
        change(&node.ensure(&digest).unwrap().rootfs);
        node.refuses(&digest, message);
    }
}

#[test]
fn rewritten_but_unchanged_image_is_used_and_resealed() {
    let node = node();
    let digest = node.image();
    let root = node.ensure(&digest).unwrap().rootfs;
    let seal = fs::read_to_string(root.with_file_name("seal")).unwrap();
    fs::write(root.join("usr/bin/tool"), b"do no harm").unwrap();
    fs::write(root.join("usr/bin/passing"), b"").unwrap();
    fs::remove_file(root.join("usr/bin/passing")).unwrap();
    assert!(!node.ensure(&digest).unwrap().fresh);
    let anew = fs::read_to_string(root.with_file_name("seal")).unwrap();
    assert_ne!(seal, anew);
    assert!(!node.ensure(&digest).unwrap().fresh);
    assert_eq!(fs::read_to_string(root.with_file_name("seal")).unwrap(), anew, "it is sealed once");
    flip(&root.join("usr/bin/tool"));
    node.refuses(&digest, "/usr/bin/tool");
}

#[test]
fn an_image_without_a_seal_is_read_whole_once() {
    let node = node();
    let digest = node.image();
    let root = node.ensure(&digest).unwrap().rootfs;
    let seal = root.with_file_name("seal");
    fs::remove_file(&seal).unwrap();
    assert!(!node.ensure(&digest).unwrap().fresh);
    assert!(seal.exists());
    // Modified while the seal is missing, or belongs to another image.
    fs::remove_file(&seal).unwrap();
    flip(&root.join("usr/bin/tool"));
    node.refuses(&digest, "/usr/bin/tool");
    let text = fs::read_to_string(&seal).unwrap();
    flip(&root.join("usr/bin/tool"));
    fs::write(&seal, text.replacen("sha256:", "sha256:0", 1)).unwrap();
    node.refuses(&digest, "/usr/bin/tool");
}

/// Attack: a crash between drafting the new seal and reading the touched files.
#[test]
fn a_draft_of_a_seal_seals_nothing() {
    let node = node();
    let digest = node.image();
    let root = node.ensure(&digest).unwrap().rootfs;
    flip(&root.join("usr/bin/tool"));
    let lines = fs::read_to_string(root.with_file_name("seal")).unwrap();
    fs::write(root.with_file_name("seal.new"), lines).unwrap();
    node.refuses(&digest, "/usr/bin/tool");
}

#[test]
fn image_set_aside_is_kept_while_in_use_and_removed_after() {
    let node = node();
    let digest = node.image();
    for _ in 0..2 {
        let root = node.ensure(&digest).unwrap().rootfs;
        flip(&root.join("usr/bin/tool"));
        assert!(node.ensure(&digest).is_err());
    }
    let root = node.ensure(&digest).unwrap().rootfs;
    assert_eq!(node.aside(), 2);
    assert_eq!(node.images.clear_aside(|used| *used == digest).unwrap(), 0);
    assert_eq!(node.images.clear_aside(|_| false).unwrap(), 2);
    assert_eq!(node.aside(), 0);
    assert_eq!(root, node.images.rootfs(&digest));
    assert!(!node.ensure(&digest).unwrap().fresh, "the one in use is another");
    assert_eq!(node.images.list().unwrap(), [digest]);
}

#[test]
fn changed_image_is_refused_to_one_concurrent_caller_and_never_run() {
    let node = node();
    let digest = node.image();
    flip(&node.ensure(&digest).unwrap().rootfs.join("usr/bin/tool"));
    let ends: Vec<Result<Image, Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| node.ensure(&digest))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ends.iter().filter(|end| matches!(end, Err(Error::Changed { .. }))).count(), 1, "{ends:?}");
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 7, "{ends:?}");
    assert_eq!(node.images.verify_tree(&digest).unwrap(), Vec::<String>::new());
}

#[test]
fn a_look_at_twenty_thousand_files_takes_no_time_that_anybody_notices() {
    let folder = quick_folder();
    let tar =
        (0..20_000).fold(Tar::default(), |tar, file| tar.file(&format!("{}/{file}", file % 100), b"content"));
    let layout = Layout::new(&folder.path().join("layout"));
    let digest = layout.image(&[tar]);
    let images = Images::open(folder.path().join("images")).unwrap();
    images.ensure(&layout.source(), &digest, &Limits::default()).unwrap();
    let began = Instant::now();
    assert!(!images.ensure(&layout.source(), &digest, &Limits::default()).unwrap().fresh);
    let took = began.elapsed();
    println!("20,000 files were looked at in {took:?}");
    assert!(took.as_millis() < 2_000, "{took:?}");
}
