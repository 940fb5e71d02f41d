//! The budget of an owner: what counts, what gives way, and what is refused.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use muster_image::{Budget, Digest, Error, Footprint, Image, Images, Limits};
use parking_lot::Mutex;

use crate::layout::{Layout, Packing, Tar};

const MIB: u64 = 1 << 20;

/// Images of a node, and the cells that use them.
struct Node {
    folder: tempfile::TempDir,
    layout: Layout,
    images: Images,
    cells: Mutex<BTreeSet<(String, Digest)>>,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(&folder.path().join("layout"));
        let images = Images::open(folder.path().join("images")).unwrap();
        Self { folder, layout, images, cells: Mutex::default() }
    }

    /// Creates an image of `mib` MiB that compresses to almost nothing.
    fn image(&self, salt: u8, mib: u64) -> Digest {
        let tar = Tar::default().file("zeros", &vec![0; (mib * MIB) as usize]).file("salt", &[salt]);
        self.layout.manifest(&[self.layout.layer(&tar.bytes(), Packing::Gzip)], &serde_json::json!({}))
    }

    fn with_budget<T>(&self, owner: &str, mib: u64, act: impl FnOnce(&Budget<'_>) -> T) -> T {
        let uses = |name: &str, digest: &Digest| self.cells.lock().contains(&(name.to_owned(), *digest));
        let is_used = |digest: &Digest| self.cells.lock().iter().any(|(_, other)| other == digest);
        act(&Budget {
            owner,
            most: Footprint { bytes: mib * MIB, files: 1_000 },
            is_used_by_owner: &|digest| uses(owner, digest),
            is_used: &is_used,
            within: None,
        })
    }

    /// Likewise, for a project in a tenant that has a budget too.
    fn run_in_tenant(&self, tenant: &str, project: &str, digest: &Digest) -> Result<(), Error> {
        let _hold = self.images.hold(digest);
        let owner = format!("{tenant}/{project}");
        let is_used = |digest: &Digest| self.cells.lock().iter().any(|(_, other)| other == digest);
        let uses = |digest: &Digest| {
            let cells = self.cells.lock();
            cells.iter().any(|(name, other)| other == digest && name.starts_with(tenant))
        };
        let budget = |owner, mib: u64, within| Budget {
            owner,
            most: Footprint { bytes: mib * MIB, files: 1_000 },
            is_used_by_owner: &uses,
            is_used: &is_used,
            within,
        };
        let of_tenant = budget(tenant, 14, None);
        let of_project = budget(&owner, 10, Some(&of_tenant));
        self.images.ensure_within(&self.layout.source(), digest, &Limits::default(), &of_project)?;
        self.cells.lock().insert((owner, *digest));
        Ok(())
    }

    fn unpack(&self, owner: &str, mib: u64, digest: &Digest) -> Result<Image, Error> {
        let _hold = self.images.hold(digest);
        let source = self.layout.source();
        self.with_budget(owner, mib, |budget| {
            self.images.ensure_within(&source, digest, &Limits::default(), budget)
        })
    }

    /// Unpacks an image, and starts a cell from it.
    fn run(&self, owner: &str, mib: u64, digest: &Digest) -> Result<(), Error> {
        let _hold = self.images.hold(digest);
        self.unpack(owner, mib, digest)?;
        self.cells.lock().insert((owner.to_owned(), *digest));
        Ok(())
    }

    fn end(&self, owner: &str, digest: &Digest) {
        assert!(self.cells.lock().remove(&(owner.to_owned(), *digest)));
    }

    fn used_at(&self, digest: &Digest, seconds: u64) {
        self.images.mark_used(digest, SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    fn has(&self, digest: &Digest) -> bool {
        self.images.lookup(digest).unwrap().is_some()
    }
}

fn is_over_budget<T>(done: Result<T, Error>) -> bool {
    matches!(done, Err(Error::OverBudget { .. }))
}

/// Attack: a project starts cells from ever more images, until others have no room.
#[test]
fn one_project_fills_its_share_and_the_image_of_another_still_fits() {
    let node = Node::new();
    let images: Vec<Digest> = (0..5).map(|salt| node.image(salt, 4)).collect();
    for digest in &images[..2] {
        node.run("a", 10, digest).unwrap();
    }
    let refused = node.run("a", 10, &images[2]).unwrap_err();
    let said = refused.to_string();
    assert!(is_over_budget::<()>(Err(refused)), "{said}");
    for part in ["budget for images", "of 10 MB", "--project-images-percent", "destroy cells"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!node.has(&images[2]), "nothing of it is left");
    assert!(node.has(&images[0]) && node.has(&images[1]), "an image that a cell uses stays");
    node.run("b", 10, &images[3]).unwrap();
    node.run("a", 10, &images[0]).unwrap();

    // The charges outlive the agent.
    let node = Node { images: Images::open(node.folder.path().join("images")).unwrap(), ..node };
    assert!(is_over_budget(node.run("a", 10, &images[4])));
    node.end("a", &images[1]);
    node.run("a", 10, &images[4]).unwrap();
    assert!(!node.has(&images[1]), "an unused one gave way");
}

#[test]
fn of_unused_images_the_least_recently_used_gives_way_and_none_for_what_can_never_fit() {
    let node = Node::new();
    let images: Vec<Digest> = (0..3).map(|salt| node.image(salt, 3)).collect();
    for (digest, seconds) in images.iter().zip([30, 10, 20]) {
        node.unpack("a", 10, digest).unwrap();
        node.used_at(digest, seconds);
    }
    assert!(is_over_budget(node.unpack("a", 10, &node.image(9, 11))));
    assert!(images.iter().all(|digest| node.has(digest)), "none gave way");
    node.unpack("a", 10, &node.image(8, 3)).unwrap();
    assert_eq!(images.iter().map(|digest| node.has(digest)).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn an_image_of_two_projects_counts_for_both_and_one_gives_it_up_without_evicting_it() {
    let node = Node::new();
    let (common, one, two) = (node.image(1, 4), node.image(2, 4), node.image(3, 4));
    node.run("a", 10, &common).unwrap();
    node.run("b", 10, &common).unwrap();
    for owner in ["a", "b"] {
        node.run(owner, 10, if owner == "a" { &one } else { &two }).unwrap();
        assert!(is_over_budget(node.run(owner, 10, &node.image(4, 4))), "{owner}");
    }
    node.end("a", &common);
    node.run("a", 10, &node.image(4, 4)).unwrap();
    assert!(node.has(&common), "another project uses it");
    // It is there, and still does not fit.
    assert!(is_over_budget(node.run("a", 10, &common)));
    node.end("b", &common);
    node.run("b", 10, &node.image(5, 4)).unwrap();
    assert!(!node.has(&common), "it counted for no other project");
}

/// Attack: a tenant starts cells in ever more projects, each within its budget, until other tenants have no room.
#[test]
fn the_projects_of_one_tenant_share_a_budget_and_another_tenant_still_has_room() {
    let node = Node::new();
    let images: Vec<Digest> = (0..6).map(|salt| node.image(salt, 4)).collect();
    node.run_in_tenant("a", "one", &images[0]).unwrap();
    node.run_in_tenant("a", "one", &images[1]).unwrap();
    node.run_in_tenant("a", "two", &images[2]).unwrap();
    // The tenant is full, although its other project is not. An image of two of its projects counts once.
    assert!(is_over_budget(node.run_in_tenant("a", "two", &images[3])));
    assert!(!node.has(&images[3]), "nothing of it is left");
    node.run_in_tenant("a", "two", &images[0]).unwrap();
    // Another tenant's, also one whose name begins alike, has a budget of its own.
    node.run_in_tenant("ab", "one", &images[4]).unwrap();
    node.run_in_tenant("b", "one", &images[5]).unwrap();
    // An image that no project of the tenant uses gives way; those of others stay.
    node.end("a/one", &images[1]);
    node.run_in_tenant("a", "three", &images[3]).unwrap();
    assert!(!node.has(&images[1]) && node.has(&images[4]) && node.has(&images[5]));
}

#[test]
fn files_count_too() {
    let node = Node::new();
    let tar = (0..1_001).fold(Tar::default(), |tar, number| tar.file(&format!("f{number}"), b""));
    let many =
        node.layout.manifest(&[node.layout.layer(&tar.bytes(), Packing::Gzip)], &serde_json::json!({}));
    let refused = node.unpack("a", 1_000, &many).unwrap_err().to_string();
    assert!(refused.contains("of 1000 files"), "{refused}");
}

/// Attack: many pulls at once, each of which would fit alone.
#[test]
fn many_images_at_once_never_exceed_the_budget_together() {
    let node = Node::new();
    let images: Vec<Digest> = (0..8).map(|salt| node.image(salt, 4)).collect();
    let fitted = std::thread::scope(|scope| {
        let running: Vec<_> =
            images.iter().map(|digest| scope.spawn(|| node.run("a", 10, digest).is_ok())).collect();
        running.into_iter().map(|one| one.join().unwrap()).filter(|ok| *ok).count()
    });
    assert!(fitted <= 2, "{fitted} images of 4 MiB in 10 MiB");
    assert_eq!(
        images.iter().filter(|digest| node.has(digest)).count(),
        fitted,
        "nothing of the others is left"
    );
}

#[test]
fn content_that_is_fetched_counts_until_it_is_unpacked_or_dropped() {
    let node = Node::new();
    let (one, two, unused) = (node.image(1, 4), node.image(2, 4), node.image(3, 4));
    node.unpack("a", 10, &unused).unwrap();
    node.with_budget("a", 10, |budget| {
        let first = node.images.reserve(&one, 9 * MIB, budget).unwrap();
        assert!(!node.has(&unused), "it gave way");
        assert!(is_over_budget(node.images.reserve(&two, 4 * MIB, budget)));
        drop(first);
        let again = node.images.reserve(&two, 4 * MIB, budget).unwrap();
        node.run("a", 10, &two).unwrap();
        drop(again);
        assert!(is_over_budget(node.images.reserve(&one, 9 * MIB, budget)), "unpacked it counts on");
        node.images.reserve(&one, 5 * MIB, budget).unwrap();
    });
}

#[test]
fn an_image_that_was_evicted_for_other_reasons_no_longer_counts() {
    let node = Node::new();
    let digest = node.image(1, 8);
    node.unpack("a", 10, &digest).unwrap();
    node.images.remove(&digest).unwrap();
    node.run("a", 10, &node.image(2, 8)).unwrap();
}
