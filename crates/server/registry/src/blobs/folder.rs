//! The folder itself: its layout, its permissions and its identity.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use muster_ids::Env;
use rustix::fs::{Mode, OFlags};
use uuid::Uuid;

use super::{Inner, StorageError, at};

pub(super) const UPLOADS: &str = "uploads";
pub(super) const BLOBS: &str = "blobs";
/// Damaged files for an operator to examine; created with the first one.
pub(super) const QUARANTINE: &str = "quarantine";
const IDENTITY: &str = "storage.id";
const OWNER: &str = "database.id";

/// Creates the missing parts of the folder and returns its identity. Safe to run on several servers at once.
pub(super) fn prepare(folder: &Path, env: &Env) -> Result<Uuid, StorageError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at("make", folder))?;
    let mode = fs::metadata(folder).map_err(at("inspect", folder))?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(at("close", folder))?;
    }
    let blobs = folder.join(BLOBS);
    let mut made = make(&folder.join(UPLOADS))? | make(&blobs)?;
    for byte in 0..=u8::MAX {
        made |= make(&blobs.join(format!("{byte:02x}")))?;
    }
    if made {
        sync(&blobs)?;
        sync(folder)?;
    }
    let identity = named(folder, IDENTITY, env.uuid(), env)?;
    try_lock(&folder.join(IDENTITY))?;
    Ok(identity)
}

/// Returns the database that owns the folder; the first caller sets it.
pub(super) fn belong_to(folder: &Path, database: Uuid, env: &Env) -> Result<Uuid, StorageError> {
    named(folder, OWNER, database, env)
}

/// Opens the folder and verifies its marks. A file looked up below it is then certain to be looked up in our storage, whatever is
/// mounted or unmounted meanwhile.
pub(super) fn open_ours(store: &Inner) -> Result<File, StorageError> {
    let away = || StorageError::Away { path: store.folder.display().to_string(), identity: store.identity };
    let folder = match File::open(&store.folder) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(away()),
        Err(error) => return Err(at("open", &store.folder)(error)),
    };
    for (name, expected) in [(IDENTITY, Some(store.identity)), (OWNER, store.owner.get().copied())] {
        let Some(expected) = expected else { continue };
        let mark = open_below(&folder, name, OFlags::RDONLY);
        let mut mark = mark.map_err(at("open", &store.folder.join(name)))?.ok_or_else(away)?;
        let mut text = String::new();
        (&mut mark).take(64).read_to_string(&mut text).map_err(at("read", &store.folder.join(name)))?;
        if Uuid::try_parse(text.trim()) != Ok(expected) {
            return Err(away());
        }
    }
    Ok(folder)
}

/// Opens what has this name in an open directory; none if it does not exist.
pub(super) fn open_below(directory: &File, name: &str, flags: OFlags) -> io::Result<Option<File>> {
    match rustix::fs::openat(directory, name, flags | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(file.into())),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Without locks two servers could write to one upload at once, so a file system that has none is refused at the start.
fn try_lock(path: &Path) -> Result<(), StorageError> {
    let file = File::open(path).map_err(at("open", path))?;
    match file.try_lock_shared() {
        Ok(()) | Err(fs::TryLockError::WouldBlock) => Ok(()),
        Err(fs::TryLockError::Error(error)) => Err(at("lock", path)(error)),
    }
}

/// Creates a directory that only the server can enter; reports whether it is new.
pub(super) fn make(directory: &Path) -> Result<bool, StorageError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(at("make", directory)(error)),
    }
}

/// Syncs a directory, so that its entries survive a power failure.
pub(super) fn sync(directory: &Path) -> Result<(), StorageError> {
    let synced = File::open(directory).and_then(|open| open.sync_all());
    synced.map_err(at("sync", directory))
}

/// Writes the identity to a temporary file and links it to its name: of several servers one link succeeds, and no server
/// reads a partial identity. A rename was rejected, because it would replace an identity that another server has already
/// read.
fn named(folder: &Path, name: &str, candidate: Uuid, env: &Env) -> Result<Uuid, StorageError> {
    let path = folder.join(name);
    if let Some(found) = read_identity(&path)? {
        return Ok(found);
    }
    let draft = folder.join(format!("{name}.{}", env.uuid()));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
            writeln!(file, "{candidate}")?;
            file.sync_all()
        });
    written.map_err(at("write", &draft))?;
    let linked = fs::hard_link(&draft, &path);
    fs::remove_file(&draft).map_err(at("remove", &draft))?;
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(at("name", &path)(error)),
    }
    sync(folder)?;
    let found = read_identity(&path)?;
    found.ok_or_else(|| at("find the renamed file", &path)(io::ErrorKind::NotFound.into()))
}

fn read_identity(path: &Path) -> Result<Option<Uuid>, StorageError> {
    match fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let found = Uuid::try_parse(text.trim());
            found.map(Some).map_err(|_| StorageError::Identity { path: path.display().to_string() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at("read", path)(error)),
    }
}
