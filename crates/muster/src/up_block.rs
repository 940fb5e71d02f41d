//! Which block of addresses and user ids a data folder has on this machine.
//!
//! User ids are the machine's, whatever network namespace somebody is in, and two that share them find each other's processes. So a
//! block is taken by a file at a place that all of the machine have. It is held while `muster up` runs; after that it says whose
//! the block is, and counts for as long as that data folder says the same. Looking at addresses alone was rejected: they are seen
//! only from within one network namespace.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::up_record::{Kind, peek};

/// Where the files are, whatever `--run-dir` says.
const FOLDER: &str = "/run/muster/blocks";

/// A block that is ours until this is dropped, and after that for as long as our data folder says so.
#[derive(Debug)]
pub(crate) struct Claim {
    #[expect(dead_code, reason = "the file is held, never read: closing it gives the lock back")]
    file: File,
}

/// The blocks of a machine.
pub(crate) struct Blocks {
    pub(crate) folder: PathBuf,
}

impl Blocks {
    /// Those of this machine.
    pub(crate) fn machine() -> Self {
        Self { folder: PathBuf::from(FOLDER) }
    }

    /// The file that says whose a block is.
    pub(crate) fn file(&self, block: u8) -> PathBuf {
        self.folder.join(block.to_string())
    }

    /// Takes a block for a data folder; nothing if it is another's.
    pub(crate) fn claim(&self, block: u8, data: &Path) -> anyhow::Result<Option<Claim>> {
        let path = self.file(block);
        let doing = || format!("taking {}", path.display());
        let Some(mut file) = self.hold(&path).with_context(doing)? else { return Ok(None) };
        let owner = owner(&mut file).with_context(doing)?;
        if owner.is_some_and(|owner| owner != data && has(&owner, block)) {
            return Ok(None);
        }
        let mut write = || {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(data.as_os_str().as_encoded_bytes())
        };
        write().with_context(doing)?;
        Ok(Some(Claim { file }))
    }

    /// Gives a block back, if it is this data folder's. Nobody may hold it.
    pub(crate) fn give_back(&self, block: u8, data: &Path) -> anyhow::Result<()> {
        let path = self.file(block);
        let doing = || format!("giving back {}", path.display());
        if path.exists() {
            let Some(mut file) = self.hold(&path).with_context(doing)? else {
                bail!("{} is held by somebody: stop that `muster up` first", path.display())
            };
            if owner(&mut file).with_context(doing)?.is_none_or(|owner| owner == data || !has(&owner, block))
            {
                fs::remove_file(&path).with_context(doing)?;
            }
        }
        // Others may have theirs in it; then it stays.
        if fs::remove_dir(&self.folder).is_ok() {
            let _ = self.folder.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// The file, locked; nothing if somebody else holds it. One that was removed meanwhile is nobody's, and is made anew.
    fn hold(&self, path: &Path) -> std::io::Result<Option<File>> {
        loop {
            let file = match self.open(path) {
                // Somebody gave the last block back at this moment, and the folder with it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) => {}
            }
            let (held, there) = (file.metadata()?, path.metadata());
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino())) {
                return Ok(Some(file));
            }
        }
    }

    fn open(&self, path: &Path) -> std::io::Result<File> {
        if let Some(parent) = self.folder.parent().filter(|parent| !parent.exists()) {
            DirBuilder::new().recursive(true).mode(0o711).create(parent)?;
            // Cells pass through it to what is mounted for them, whatever mask the caller has.
            fs::set_permissions(parent, fs::Permissions::from_mode(0o711))?;
        }
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => {
                OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
            }
        }
    }
}

/// Whose a file says that its block is.
fn owner(file: &mut File) -> std::io::Result<Option<PathBuf>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(Some(text).filter(|text| !text.is_empty()).map(PathBuf::from))
}

/// Whether something of a data folder's may be there with this block. A record that cannot be read may say so.
fn has(data: &Path, block: u8) -> bool {
    match peek(data) {
        Ok(Some(record)) => {
            matches!(record.kind, Kind::Cells(ground) if ground.block == block && ground.raised)
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
#[path = "up_block_tests.rs"]
mod tests;
