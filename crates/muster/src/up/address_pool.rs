//! Address pool of a data folder: its block of addresses and user ids on this machine.
//!
//! User ids are global to the machine, regardless of network namespaces, and two testbeds that share them reach each
//! other's processes. A block is therefore claimed by a file in a machine-wide folder. It is locked while `muster up`
//! runs; after that the file names the block's owner, and is valid as long as that data folder's record agrees. Checking
//! only addresses was rejected: they are visible only within one network namespace.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::up::record::{Kind, peek};

/// Folder of the files, independent of `--run-dir`.
const FOLDER: &str = "/run/muster/blocks";

/// A claimed block: locked until this is dropped, and afterwards owned as long as our data folder's record agrees.
#[derive(Debug)]
pub(crate) struct Claim {
    #[expect(dead_code, reason = "the file is held, never read: closing it releases the lock")]
    file: File,
}

/// Blocks of a machine.
pub(crate) struct Blocks {
    pub(crate) folder: PathBuf,
}

impl Blocks {
    /// Returns the blocks of this machine.
    pub(crate) fn machine() -> Self {
        Self { folder: PathBuf::from(FOLDER) }
    }

    /// Returns the file that names a block's owner.
    pub(crate) fn file(&self, block: u8) -> PathBuf {
        self.folder.join(block.to_string())
    }

    /// Claims a block for a data folder; `None` if another one owns it.
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

    /// Releases a block, if this data folder owns it. It must not be locked.
    pub(crate) fn give_back(&self, block: u8, data: &Path) -> anyhow::Result<()> {
        let path = self.file(block);
        let doing = || format!("releasing {}", path.display());
        if path.exists() {
            let Some(mut file) = self.hold(&path).with_context(doing)? else {
                bail!("{} is in use: stop that `muster up` first", path.display())
            };
            if owner(&mut file).with_context(doing)?.is_none_or(|owner| owner == data || !has(&owner, block))
            {
                fs::remove_file(&path).with_context(doing)?;
            }
        }
        // The folder stays if others still use it.
        if fs::remove_dir(&self.folder).is_ok() {
            let _ = self.folder.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Locks the file; `None` if another process holds it. A file removed meanwhile has no owner, and is created again.
    fn hold(&self, path: &Path) -> std::io::Result<Option<File>> {
        loop {
            let file = match self.open(path) {
                // Another process just released the last block, and removed the folder.
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
            // Cells traverse it to their mounts, so the caller's umask must not apply.
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

/// Returns the owner named in a file.
fn owner(file: &mut File) -> std::io::Result<Option<PathBuf>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(Some(text).filter(|text| !text.is_empty()).map(PathBuf::from))
}

/// Reports whether a data folder may still use this block. An unreadable record counts as yes.
fn has(data: &Path, block: u8) -> bool {
    match peek(data) {
        Ok(Some(record)) => {
            matches!(record.kind, Kind::Cells(testbed) if testbed.block == block && testbed.raised)
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
#[path = "address_pool_tests.rs"]
mod tests;
