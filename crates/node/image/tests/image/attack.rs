//! Hostile images that try to escape their root, or to take a node down.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use muster_image::{Error, Images, Limits};
use serde_json::json;

use crate::canary::{plant, quick_folder, snapshot};
use crate::corpus::{Attack, End, corpus};
use crate::layout::{Layout, Packing, Tar};

/// Scene of an attack: the root is as deep in `images` as on a node.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = quick_folder();
        let own = fs::metadata(folder.path()).unwrap().uid();
        assert_eq!(own, 0, "these tests give files to other users: run them as root");
        plant(&folder.path().join("canary"));
        Self { folder }
    }

    fn canary(&self) -> PathBuf {
        self.folder.path().join("canary")
    }

    fn images(&self) -> PathBuf {
        self.folder.path().join("images")
    }
}

/// Checks the outcome of an attack, and returns what is wrong otherwise.
fn judge(attack: &Attack, rootfs: &Path, result: Result<(), String>) -> Result<(), String> {
    match (&attack.end, result) {
        (End::Refused(_), Err(_)) => Ok(()),
        (End::Refused(why), Ok(())) => Err(format!("not refused, though {why:?}")),
        (_, Err(error)) => Err(format!("refused: {error}")),
        (End::Nothing, Ok(())) => Ok(()),
        (End::Inside(path), Ok(())) => match fs::read(rootfs.join(path.trim_start_matches('/'))) {
            Ok(content) if content == b"!" => Ok(()),
            other => Err(format!("inside the root lies {other:?}")),
        },
    }
}

#[test]
fn no_attack_leaves_the_root() {
    let scene = Scene::new();
    let images = Images::open(scene.images()).unwrap();
    let layout = Layout::new(&scene.folder.path().join("layout"));
    let canary = scene.canary();
    let before = snapshot(&canary);
    for attack in corpus(canary.to_str().unwrap()) {
        let members: Vec<Vec<u8>> = attack.members.iter().map(Tar::bytes).collect();
        let together: Vec<u8> = members.iter().flat_map(|tar| tar[..tar.len() - 1024].to_vec()).collect();
        let together = [together, vec![0; 1024]].concat();
        for layers in [members, vec![together]] {
            let layers: Vec<_> = layers.iter().map(|layer| layout.layer(layer, Packing::Plain)).collect();
            let digest = layout.manifest(&layers, &json!({}));
            let done = images.ensure(&layout.source(), &digest, &Limits::default());
            let rootfs = scene.images().join(format!("sha256-{}", digest.hex())).join("rootfs");
            let result = done.as_ref().map(|_| ()).map_err(Error::to_string);
            if let (End::Refused(why), Err(error)) = (&attack.end, &result) {
                assert!(error.contains(why), "{}: refused for another reason: {error}", attack.name);
            }
            judge(&attack, &rootfs, result).unwrap_or_else(|why| panic!("{}: {why}", attack.name));
            assert_eq!(snapshot(&canary), before, "{}", attack.name);
            let unfinished = fs::read_dir(scene.images().join("partial")).unwrap().count();
            assert_eq!(unfinished, 0, "{}", attack.name);
            assert_eq!(rootfs.exists(), done.is_ok(), "{}", attack.name);
            images.remove(&digest).unwrap();
        }
    }
}

/// Unpacks naively: by joining names to the folder.
fn join_and_write(tar: &[u8], root: &Path) -> Result<(), String> {
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        let path = root.join(entry.path().map_err(|error| error.to_string())?);
        let link = entry.link_name().map_err(|error| error.to_string())?;
        let done = match (entry.header().entry_type(), link) {
            (tar::EntryType::Directory, _) => fs::create_dir_all(&path),
            (tar::EntryType::Symlink, Some(to)) => std::os::unix::fs::symlink(to, &path),
            (tar::EntryType::Link, Some(to)) => fs::hard_link(root.join(to), &path),
            _ => {
                fs::File::create(&path).and_then(|mut file| std::io::copy(&mut entry, &mut file).map(|_| ()))
            }
        };
        done.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns the attacks that reach the canary, and those with a wrong outcome, for an unpacker.
fn fooled(unpack: impl Fn(&[u8], &Path) -> Result<(), String>) -> (Vec<&'static str>, Vec<&'static str>) {
    let (mut escaped, mut wrong) = (Vec::new(), Vec::new());
    let names = corpus("").into_iter().map(|attack| attack.name);
    for (index, name) in names.enumerate() {
        let scene = Scene::new();
        let canary = scene.canary();
        let attack = corpus(canary.to_str().unwrap()).swap_remove(index);
        let rootfs = scene.images().join("partial/naive/rootfs");
        fs::create_dir_all(&rootfs).unwrap();
        let before = snapshot(&canary);
        let result = attack.members.iter().try_for_each(|tar| unpack(&tar.bytes(), &rootfs));
        if snapshot(&canary) != before {
            escaped.push(name);
        }
        if judge(&attack, &rootfs, result).is_err() {
            wrong.push(name);
        }
    }
    (escaped, wrong)
}

#[test]
fn the_corpus_catches_whoever_unpacks_carelessly() {
    let (escaped, _) = fooled(join_and_write);
    assert!(escaped.len() >= 8, "joining names got out only by {escaped:?}");
    // The tar library guards its folder, so nothing escapes. But it does not know whiteouts, silently skips members that
    // must be refused, and resolves an image's links against the node's root rather than the image's.
    let (escaped, wrong) =
        fooled(|tar, root| tar::Archive::new(tar).unpack(root).map_err(|error| error.to_string()));
    assert_eq!(escaped, Vec::<&str>::new());
    for expected in ["dots in a name", "the image's root by a link", "a whiteout of the directory above"] {
        assert!(wrong.contains(&expected), "{expected} is not among {wrong:?}");
    }
}
