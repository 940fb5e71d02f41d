//! Unpacked images on this node.
//!
//! ```text
//! FOLDER/                      accessible to root only: it contains setuid programs
//!   locks/sha256-…             locked while this image is unpacked or removed, and released when that process dies
//!   partial/sha256-…/          unfinished: content without a held lock is garbage
//!   sha256-…/rootfs/           an image, complete because it is moved here atomically
//!   sha256-…/tree              record of the content of rootfs
//!   sha256-…/seal              change times of everything in rootfs, to detect later changes
//!   sha256-…/image.json        description of the image, and the digest of the tree's record; its mtime is the last use
//!   owners.json                the owners for which each image counts
//!   aside/sha256-….N/          images modified after they were unpacked: cells may still run from them
//! ```

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::budget::Ledger;
use crate::digest::{file_name, from_file_name};
use crate::document::{self, Config};
use crate::layer::Allowance;
use crate::room::Room;
use crate::seal::{self, Look};
use crate::tree::{self, Depth};
use crate::unpack::{LeftOut, unpack};
use crate::{Digest, Error, Footprint, Limits, Source};

const PARTIAL: &str = "partial";
const LOCKS: &str = "locks";
const ROOTFS: &str = "rootfs";
const TREE: &str = "tree";
const SEAL: &str = "seal";
const DRAFT: &str = "seal.new";
pub(crate) const RECORD: &str = "image.json";
const ASIDE: &str = "aside";
/// Maximum listed differences of a modified image.
const TOLD: usize = 3;

/// Unpacked images on this node.
#[derive(Debug, Clone)]
pub struct Images {
    pub(crate) folder: PathBuf,
    /// Number of holds of each image.
    pub(crate) held: Arc<Mutex<HashMap<Digest, usize>>>,
    /// Images of each owner.
    pub(crate) ledger: Arc<Mutex<Ledger>>,
}

/// An unpacked image. It is shared: never write into its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Requested digest: of a manifest, or of an index that leads to one.
    pub digest: Digest,
    /// Digest of the manifest.
    pub manifest: Digest,
    /// Root file system.
    pub rootfs: PathBuf,
    /// Runtime configuration.
    pub config: Config,
    /// Digest of the tree's record: the same on every node.
    pub tree: Digest,
    /// Contents that were not unpacked.
    pub left_out: LeftOut,
    /// Whether this call unpacked it, rather than found it.
    pub fresh: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    digest: Digest,
    manifest: Digest,
    config: Config,
    tree: Digest,
    left_out: LeftOut,
    #[serde(default)]
    footprint: Footprint,
}

impl Images {
    /// Opens the folder of images, creates it if missing, and removes unfinished images after a crash.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let mut images = Self { folder: folder.into(), held: Arc::default(), ledger: Arc::default() };
        for part in ["", PARTIAL, LOCKS] {
            let folder = images.folder.join(part);
            fs::create_dir_all(&folder).map_err(Error::at("make", &folder))?;
            let private = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&folder, private).map_err(Error::at("close", &folder))?;
        }
        for digest in digests_in(&images.folder.join(PARTIAL))? {
            let lock = images.open_lock(&digest)?;
            if lock.try_lock().is_ok() {
                remove_tree(&images.partial(&digest))?;
            }
        }
        images.ledger = Arc::new(Mutex::new(Ledger::read(&images)));
        Ok(images)
    }

    /// Returns the unpacked image, either existing and unmodified or from the source. Concurrent requests for the same
    /// image, in this process or another, wait and then find it. A modified image is set aside and refused once; a retry
    /// unpacks it again.
    pub fn ensure(&self, source: &Source, digest: &Digest, limits: &Limits) -> Result<Image, Error> {
        self.ensure_allowed(source, digest, limits, None)
    }

    /// Like `ensure`, and asks before each member that it unpacks.
    pub(crate) fn ensure_allowed(
        &self,
        source: &Source,
        digest: &Digest,
        limits: &Limits,
        allowance: Option<Allowance<'_>>,
    ) -> Result<Image, Error> {
        if let Some(image) = self.lookup(digest)?
            && matches!(self.look(&image), Ok(Look::Whole))
        {
            return Ok(image);
        }
        let _lock = self.lock(digest)?;
        if let Some(image) = self.lookup(digest)? {
            self.inspect(&image).map_err(|error| error.or_no_room(digest))?;
            return Ok(image);
        }
        let partial = self.partial(digest);
        remove_tree(&partial)?;
        let made = self.make(source, digest, limits, allowance);
        if made.is_err()
            && let Err(error) = remove_tree(&partial)
        {
            tracing::warn!(%digest, %error, "leftovers of an image that could not be unpacked stay until the next start");
        }
        made.map_err(|error| error.or_no_room(digest))?;
        let image = self.lookup(digest)?.ok_or_else(|| {
            let gone = io::Error::from(io::ErrorKind::NotFound);
            Error::at("find the moved file", &self.home(digest))(gone)
        })?;
        Ok(Image { fresh: true, ..image })
    }

    /// Returns the image, if it is unpacked.
    pub fn lookup(&self, digest: &Digest) -> Result<Option<Image>, Error> {
        let Some(record) = self.read_record(digest)? else { return Ok(None) };
        let Record { digest, manifest, config, tree, left_out, footprint: _ } = record;
        let rootfs = self.rootfs(&digest);
        Ok(Some(Image { digest, manifest, rootfs, config, tree, left_out, fresh: false }))
    }

    /// Returns the estimated disk usage of an image.
    pub(crate) fn footprint(&self, digest: &Digest) -> Result<Footprint, Error> {
        Ok(self.read_record(digest)?.map(|record| record.footprint).unwrap_or_default())
    }

    fn read_record(&self, digest: &Digest) -> Result<Option<Record>, Error> {
        let home = self.home(digest);
        let path = home.join(RECORD);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !home.exists() => return Ok(None),
            Err(error) => return Err(Error::Record { path, why: error.to_string() }),
        };
        let wrong = |why: String| Error::Record { path: path.clone(), why };
        let record: Record = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if record.digest != *digest {
            return Err(wrong(format!("it is about {}", record.digest)));
        }
        Ok(Some(record))
    }

    fn look(&self, image: &Image) -> Result<Look, Error> {
        seal::look(&image.rootfs, &self.home(&image.digest).join(SEAL), &image.tree)
    }

    /// Reads everything touched since the image was sealed, and seals it again if nothing differs. The caller holds the
    /// image's lock.
    fn inspect(&self, image: &Image) -> Result<(), Error> {
        let home = self.home(&image.digest);
        if self.look(image)? == Look::Whole {
            return Ok(());
        }
        // The next seal is drafted before anything is read, and takes effect only if everything matches: a concurrent change
        // is found by the next check, and a crash seals nothing.
        let draft = home.join(DRAFT);
        std::thread::sleep(seal::TICK);
        // Without a reserve: a seal is small, and without it no cell could be checked on a full disk.
        let limits = Limits { free: Footprint::default(), ..Limits::default() };
        let mut room = Room::open(&home, &limits).map_err(Error::at("open", &home))?;
        seal::write(&image.rootfs, &draft, &image.tree, &mut room)?;
        let touched = match self.look(image)? {
            Look::Touched(touched) => Some(touched),
            Look::Whole | Look::Unsealed => None,
        };
        let depth = touched.as_ref().map_or(Depth::Content, Depth::ContentOf);
        let told = tree::compare(&image.rootfs, &home.join(TREE), &image.tree, depth)?;
        if told.is_empty() {
            tracing::info!(digest = %image.digest, "an image was touched but is unchanged");
            return fs::rename(&draft, home.join(SEAL)).map_err(Error::at("seal", &home));
        }
        self.set_aside(&image.digest)?;
        let more = if told.len() > TOLD { "; and more" } else { "" };
        let what = format!("{}{more}", told[..told.len().min(TOLD)].join("; "));
        tracing::error!(digest = %image.digest, what, "an image was changed after it was unpacked");
        Err(Error::Changed { digest: image.digest, what })
    }

    /// Takes an image out of use, without removing its files from running cells.
    fn set_aside(&self, digest: &Digest) -> Result<(), Error> {
        let (home, folder) = (self.home(digest), self.folder.join(ASIDE));
        fs::create_dir_all(&folder).map_err(Error::at("make", &folder))?;
        let free = |number: &u32| !self.aside(digest, *number).exists();
        let aside = self.aside(digest, (0..u32::MAX).find(free).unwrap_or(u32::MAX));
        fs::rename(&home, &aside).map_err(Error::at("set aside", &home))?;
        sync_folder(&self.folder)
    }

    /// Removes images that were set aside, except those that `used` reports in use. Returns the number removed.
    pub fn clear_aside(&self, used: impl Fn(&Digest) -> bool) -> Result<usize, Error> {
        let folder = self.folder.join(ASIDE);
        if !folder.exists() {
            return Ok(0);
        }
        let mut gone = 0;
        for entry in fs::read_dir(&folder).map_err(Error::at("list", &folder))? {
            let path = entry.map_err(Error::at("list", &folder))?.path();
            let name =
                path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('.').next());
            if name.and_then(from_file_name).is_some_and(|digest| !used(&digest)) {
                remove_tree(&path)?;
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// Returns the root of an unpacked image that is in use.
    pub fn rootfs(&self, digest: &Digest) -> PathBuf {
        self.home(digest).join(ROOTFS)
    }

    /// Lists the unpacked images, sorted by digest.
    pub fn list(&self) -> Result<Vec<Digest>, Error> {
        digests_in(&self.folder)
    }

    /// Removes an image; returns whether it existed. The caller has checked that it is unused.
    pub fn remove(&self, digest: &Digest) -> Result<bool, Error> {
        let _lock = self.lock(digest)?;
        let (home, partial) = (self.home(digest), self.partial(digest));
        remove_tree(&partial)?;
        let there = match fs::rename(&home, &partial) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(Error::at("set aside", &home)(error)),
        };
        sync_folder(&self.folder)?;
        remove_tree(&partial)?;
        Ok(there)
    }

    /// Compares names, kinds, owners, modes and sizes of the unpacked tree with its record; each difference is a sentence.
    /// It reads no contents and is fast.
    pub fn check(&self, digest: &Digest) -> Result<Vec<String>, Error> {
        self.compare(digest, Depth::Facts)
    }

    /// Like `check`, with every byte of every file.
    pub fn verify_tree(&self, digest: &Digest) -> Result<Vec<String>, Error> {
        self.compare(digest, Depth::Content)
    }

    fn compare(&self, digest: &Digest, depth: Depth<'_>) -> Result<Vec<String>, Error> {
        match self.lookup(digest)? {
            Some(image) => {
                let record = self.home(digest).join(TREE);
                tree::compare(&image.rootfs, &record, &image.tree, depth)
            }
            None => Ok(vec![format!("{digest} is not on this node")]),
        }
    }

    fn make(
        &self,
        source: &Source,
        digest: &Digest,
        limits: &Limits,
        allowance: Option<Allowance<'_>>,
    ) -> Result<(), Error> {
        let partial = &self.partial(digest);
        let plan = document::plan(source, digest, limits)?;
        fs::create_dir(partial).map_err(Error::at("make", partial))?;
        let rootfs = partial.join(ROOTFS);
        let (left_out, footprint) = unpack(source, &plan, &rootfs, limits, allowance)?;
        std::thread::sleep(seal::TICK);
        let mut room = Room::open(partial, limits).map_err(Error::at("open", partial))?;
        let tree = tree::record(&rootfs, &partial.join(TREE), &mut room)?;
        seal::write(&rootfs, &partial.join(SEAL), &tree, &mut room)?;
        let (manifest, config) = (plan.manifest, plan.config);
        let record = Record { digest: *digest, manifest, config, tree, left_out, footprint };
        let path = partial.join(RECORD);
        let text = serde_json::to_vec_pretty(&record).expect("a record is always JSON");
        let written = File::create_new(&path).and_then(|mut file| file.write_all(&text));
        written.map_err(Error::at("write", &path))?;
        // One call for the whole file system: one for each of a hundred thousand files would take minutes.
        let all = File::open(partial).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        all.map_err(Error::at("sync", partial))?;
        let home = self.home(digest);
        fs::rename(partial, &home).map_err(Error::at("move into place", &home))?;
        sync_folder(&self.folder)
    }

    pub(crate) fn home(&self, digest: &Digest) -> PathBuf {
        self.folder.join(file_name(digest))
    }

    fn aside(&self, digest: &Digest, number: u32) -> PathBuf {
        self.folder.join(ASIDE).join(format!("{}.{number}", file_name(digest)))
    }

    pub(crate) fn partial(&self, digest: &Digest) -> PathBuf {
        self.folder.join(PARTIAL).join(file_name(digest))
    }

    fn lock(&self, digest: &Digest) -> Result<File, Error> {
        let lock = self.open_lock(digest)?;
        lock.lock().map_err(Error::node(format!("wait for the lock of {digest}")))?;
        Ok(lock)
    }

    /// Opens a lock file. They are never removed: a removal could let two processes in.
    pub(crate) fn open_lock(&self, digest: &Digest) -> Result<File, Error> {
        let path = self.folder.join(LOCKS).join(file_name(digest));
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        opened.map_err(Error::at("open", &path))
    }
}

fn digests_in(folder: &Path) -> Result<Vec<Digest>, Error> {
    let mut digests = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::at("list", folder))? {
        let name = entry.map_err(Error::at("list", folder))?.file_name();
        digests.extend(name.to_str().and_then(from_file_name));
    }
    digests.sort_unstable();
    Ok(digests)
}

pub(crate) fn remove_tree(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at("remove", path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(Error::at("sync", folder))
}
