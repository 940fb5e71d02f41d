//! Images as builders write them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::layout::{Header, Layout, Packing, Tar, gzip, zstd};
use muster_image::{Config, Digest, Error, Image, Images, LeftOut, Limits};
use serde_json::json;

struct Node {
    folder: tempfile::TempDir,
    layout: Layout,
    images: Images,
}

fn node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let own = fs::metadata(folder.path()).unwrap().uid();
    assert_eq!(own, 0, "these tests give files to other users: run them as root");
    let layout = Layout::new(&folder.path().join("layout"));
    let images = Images::open(folder.path().join("images")).unwrap();
    Node { folder, layout, images }
}

impl Node {
    fn ensure(&self, digest: &Digest) -> Result<Image, Error> {
        self.images.ensure(&self.layout.source(), digest, &Limits::default())
    }

    fn unpack(&self, layers: &[Tar]) -> PathBuf {
        self.ensure(&self.layout.image(layers)).unwrap().rootfs
    }
}

/// Returns the names of everything in a folder, sorted.
fn names(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.symlink_metadata().unwrap().is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn three_layers_are_laid_over_each_other() {
    let node = node();
    let base = Tar::default()
        .directory("./")
        .directory("bin/")
        .file("bin/tool", b"one")
        .hard_link("bin/other", "bin/tool")
        .symlink("lib", "usr/lib")
        .directory("usr/lib/")
        .file("etc/gone", b"x")
        .file("etc/stays", b"x")
        .file("var/cache/old", b"x");
    let middle = Tar::default()
        .file("etc/.wh.gone", b"")
        .file("var/cache/new", b"y")
        .file("var/cache/.wh..wh..opq", b"")
        .file("lib/through-a-link", b"z");
    let top = Tar::default().file("bin/tool", b"two").file("/etc/absolute", b"w");
    let layers = [
        node.layout.layer(&base.bytes(), Packing::Plain),
        node.layout.layer(&middle.bytes(), Packing::Gzip),
        node.layout.layer(&top.bytes(), Packing::Zstd),
    ];
    let config = json!({
        "Env": ["PATH=/bin"], "Entrypoint": ["/bin/tool"], "Cmd": ["--help"], "WorkingDir": "/var", "User": "7:8",
    });
    let image = node.ensure(&node.layout.manifest(&layers, &config)).unwrap();
    assert_eq!(
        names(&image.rootfs),
        [
            "bin",
            "bin/other",
            "bin/tool",
            "etc",
            "etc/absolute",
            "etc/stays",
            "lib",
            "usr",
            "usr/lib",
            "usr/lib/through-a-link",
            "var",
            "var/cache",
            "var/cache/new",
        ]
    );
    assert_eq!(fs::read(image.rootfs.join("bin/tool")).unwrap(), b"two");
    assert_eq!(
        fs::read(image.rootfs.join("bin/other")).unwrap(),
        b"one",
        "its other name was not written through"
    );
    assert!(image.fresh);
    assert_eq!(
        image.config,
        Config {
            env: vec!["PATH=/bin".to_owned()],
            entrypoint: vec!["/bin/tool".to_owned()],
            cmd: vec!["--help".to_owned()],
            working_dir: "/var".to_owned(),
            user: "7:8".to_owned(),
        }
    );
    let again = node.ensure(&image.digest).unwrap();
    assert_eq!(again, Image { fresh: false, ..image.clone() });
    assert_eq!(node.images.lookup(&image.digest).unwrap(), Some(again));
    assert_eq!(node.images.list().unwrap(), [image.digest]);
}

#[test]
fn owners_modes_times_and_attributes_are_kept() {
    let node = node();
    let header = Header { mode: 0o4755, uid: 1234, gid: 70_000, mtime: 1_600_000_001, ..Header::default() };
    let folder =
        Header { kind: b'5', mode: 0o1777, uid: 5, gid: 6, mtime: 1_600_000_002, ..Header::default() };
    let tar = Tar::default()
        .member(b"shared", &folder, b"")
        .extended(&[
            (b"mtime", b"1600000003.25"),
            (b"SCHILY.xattr.user.note", b"kept"),
            (b"SCHILY.xattr.security.capability", b"dropped"),
        ])
        .member(b"shared/program", &header, b"#!")
        .member(b"link", &Header { kind: b'2', link: b"shared".to_vec(), ..header.clone() }, b"");
    let image = node.ensure(&node.layout.image(&[tar])).unwrap();
    let program = fs::symlink_metadata(image.rootfs.join("shared/program")).unwrap();
    assert_eq!((program.mode() & 0o7777, program.uid(), program.gid()), (0o4755, 1234, 70_000));
    assert_eq!((program.mtime(), program.mtime_nsec()), (1_600_000_003, 250_000_000));
    let shared = fs::symlink_metadata(image.rootfs.join("shared")).unwrap();
    assert_eq!(
        (shared.mode() & 0o7777, shared.uid(), shared.gid(), shared.mtime()),
        (0o1777, 5, 6, 1_600_000_002)
    );
    let link = fs::symlink_metadata(image.rootfs.join("link")).unwrap();
    assert_eq!((link.uid(), link.gid(), link.mtime()), (1234, 70_000, 1_600_000_001));
    let mut value = [0; 16];
    let program = image.rootfs.join("shared/program");
    let length = rustix::fs::getxattr(&program, "user.note", &mut value).unwrap();
    assert_eq!(&value[..length], b"kept");
    assert!(rustix::fs::getxattr(&program, "security.capability", &mut value).is_err());
    assert_eq!(image.left_out, LeftOut { attributes: 1, ..LeftOut::default() });
}

#[test]
fn only_root_can_enter_where_images_lie() {
    let node = node();
    let mode = fs::metadata(node.folder.path().join("images")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "programs that run as root for everybody lie in there");
}

#[test]
fn a_whiteout_hides_lower_layers_and_never_its_own() {
    let node = node();
    let lower = Tar::default().file("a/low", b"").file("a/sub/low", b"").file("b", b"");
    let upper = Tar::default()
        .file("a/high", b"")
        .file("a/sub/high", b"")
        .file("a/.wh..wh..opq", b"")
        .file("b", b"new")
        .file(".wh.b", b"")
        .file("nowhere/.wh.c", b"");
    let root = node.unpack(&[lower.clone(), upper]);
    assert_eq!(names(&root), ["a", "a/high", "a/sub", "a/sub/high", "b"]);
    assert_eq!(fs::read(root.join("b")).unwrap(), b"new");
    let hidden_and_made_anew =
        Tar::default().file(".wh.a", b"").file("a/sub/other", b"").file(".wh..wh..opq", b"");
    let root = node.unpack(&[lower, hidden_and_made_anew]);
    assert_eq!(names(&root), ["a", "a/sub", "a/sub/other"]);
}

#[test]
fn entry_replaces_one_of_another_kind_in_a_lower_layer() {
    let node = node();
    let lower = Tar::default()
        .file("was-file", b"")
        .file("was-directory/inside", b"")
        .directory("target")
        .symlink("was-link", "target")
        .file("target/inside", b"kept");
    let upper = Tar::default()
        .directory("was-file")
        .file("was-file/inside", b"")
        .symlink("was-directory", "target")
        .directory("was-link")
        .file("was-link/inside", b"new");
    let root = node.unpack(&[lower, upper]);
    assert!(root.join("was-file/inside").is_file());
    assert_eq!(fs::read_link(root.join("was-directory")).unwrap(), Path::new("target"));
    assert!(root.join("was-link").symlink_metadata().unwrap().is_dir());
    assert_eq!(fs::read(root.join("target/inside")).unwrap(), b"kept");
}

#[test]
fn an_image_is_found_through_nested_indexes_for_this_machine() {
    let node = node();
    let manifest = node.layout.image(&[Tar::default().file("a", b"")]);
    let size = fs::metadata(node.layout.path_of(&manifest)).unwrap().len();
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let other = json!({"digest": Digest::of(b"other"), "size": 5, "platform": {"os": "linux", "architecture": "s390x"}});
    let ours =
        json!({"digest": manifest, "size": size, "platform": {"os": "linux", "architecture": architecture}});
    let inner = json!({"schemaVersion": 2, "manifests": [other, ours]}).to_string();
    let inner = node.layout.descriptor("application/vnd.oci.image.index.v1+json", inner.as_bytes());
    let outer = node.layout.blob(json!({"schemaVersion": 2, "manifests": [inner]}).to_string().as_bytes());
    let image = node.ensure(&outer).unwrap();
    assert_eq!((image.digest, image.manifest), (outer, manifest));
    let foreign = node.layout.blob(json!({"manifests": [other]}).to_string().as_bytes());
    let error = node.ensure(&foreign).unwrap_err().to_string();
    assert!(error.contains("linux/s390x"), "{error}");
}

#[test]
fn several_streams_in_one_layer_are_all_read() {
    let node = node();
    let plain = Tar::default().file("a", &[7; 300_000]).file("b", b"b").bytes();
    let (front, back) = plain.split_at(100_000);
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
    let zstds = [zstd(front), skipped.clone(), zstd(back), skipped].concat();
    let gzips = [gzip(front), gzip(back)].concat();
    for (packed, suffix) in [(zstds, "+zstd"), (gzips, "+gzip")] {
        let layer = node.layout.packed_layer(&packed, suffix, &Digest::of(&plain));
        let image = node.ensure(&node.layout.manifest(&[layer], &json!({}))).unwrap();
        assert_eq!(fs::read(image.rootfs.join("a")).unwrap(), [7; 300_000]);
        assert_eq!(fs::read(image.rootfs.join("b")).unwrap(), b"b");
    }
}

#[test]
fn whatever_changes_in_an_unpacked_tree_is_seen() {
    let node = node();
    let tar = Tar::default()
        .file("etc/a file", b"content")
        .file("etc/b", b"b")
        .symlink("link", "etc/b")
        .directory("dir")
        .file("dir/zuletzt \u{e4}", b"");
    let digest = node.layout.image(&[tar]);
    let image = node.ensure(&digest).unwrap();
    assert_eq!(node.images.check(&digest).unwrap(), Vec::<String>::new());
    assert_eq!(node.images.verify_tree(&digest).unwrap(), Vec::<String>::new());
    let root = &image.rootfs;
    let sees = |what: &str| {
        let told = node.images.check(&digest).unwrap();
        assert!(told.len() == 1 && told[0].contains(what), "{told:?}");
        assert_eq!(node.images.verify_tree(&digest).unwrap().len(), 1);
    };

    fs::write(root.join("etc/new"), b"").unwrap();
    sees("/etc/new was added");
    fs::remove_file(root.join("etc/new")).unwrap();

    fs::rename(root.join("etc/b"), node.folder.path().join("b")).unwrap();
    sees("/etc/b is gone");
    fs::rename(node.folder.path().join("b"), root.join("etc/b")).unwrap();

    fs::set_permissions(root.join("etc/b"), fs::Permissions::from_mode(0o4755)).unwrap();
    sees("/etc/b is (f 4755");
    fs::set_permissions(root.join("etc/b"), fs::Permissions::from_mode(0o644)).unwrap();

    fs::remove_file(root.join("link")).unwrap();
    symlink("etc/c", root.join("link")).unwrap();
    sees("/link is (l");
    fs::remove_file(root.join("link")).unwrap();
    symlink("etc/b", root.join("link")).unwrap();

    fs::write(root.join("etc/a file"), b"CONTENT").unwrap();
    assert_eq!(node.images.check(&digest).unwrap(), Vec::<String>::new(), "the quick look reads no contents");
    let told = node.images.verify_tree(&digest).unwrap();
    assert!(told.len() == 1 && told[0].contains("/etc/a file is (f"), "{told:?}");
    fs::write(root.join("etc/a file"), b"content").unwrap();
    assert_eq!(node.images.verify_tree(&digest).unwrap(), Vec::<String>::new());

    let record = root.with_file_name("tree");
    let changed = fs::read_to_string(&record).unwrap().replace("0644", "0666");
    fs::write(&record, changed).unwrap();
    sees("the record of the tree");
}

#[test]
fn the_record_of_a_tree_is_the_same_on_every_node() {
    let tar = Tar::default().directory("d").file("d/f", b"f").symlink("l", "d");
    let trees: Vec<Digest> = (0..2)
        .map(|_| {
            let node = node();
            node.ensure(&node.layout.image(std::slice::from_ref(&tar))).unwrap().tree
        })
        .collect();
    assert_eq!(trees[0], trees[1]);
}

#[test]
fn an_image_that_is_removed_leaves_nothing() {
    let node = node();
    let digest = node.layout.image(&[Tar::default().file("a/b/c", b"")]);
    node.ensure(&digest).unwrap();
    assert!(node.images.remove(&digest).unwrap());
    assert!(!node.images.remove(&digest).unwrap());
    assert_eq!(node.images.list().unwrap(), []);
    assert_eq!(node.images.lookup(&digest).unwrap(), None);
    assert!(!node.images.check(&digest).unwrap().is_empty(), "what is not there is not as it was");
    let left = names(&node.folder.path().join("images"));
    assert_eq!(left, ["locks", &format!("locks/sha256-{}", digest.hex()), "partial"]);
    assert!(node.ensure(&digest).unwrap().fresh);
}

#[test]
fn an_image_whose_record_is_broken_is_an_error_and_can_be_removed() {
    let node = node();
    let digest = node.layout.image(&[Tar::default().file("a", b"")]);
    let image = node.ensure(&digest).unwrap();
    fs::write(image.rootfs.with_file_name("image.json"), b"{").unwrap();
    assert!(matches!(node.images.lookup(&digest), Err(Error::Record { .. })));
    assert!(matches!(node.ensure(&digest), Err(Error::Record { .. })));
    assert!(node.images.remove(&digest).unwrap());
    assert!(node.ensure(&digest).unwrap().fresh);
}
