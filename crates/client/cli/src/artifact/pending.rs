//! Pending uploads across runs of the program: a small file for each, named by its content and target. They contain no
//! secret: an upload's location is useless without a token. A lost file only costs a repeated transfer.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_trust::Digest;

use super::registry::Registry;

/// Pending uploads to one repository.
pub(super) struct Pending {
    folder: PathBuf,
    key: String,
}

impl Pending {
    pub(super) fn of(cache: &Path, registry: &Registry) -> Self {
        Self { folder: cache.join("uploads"), key: format!("{}\n{}", registry.server(), registry.name) }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(Digest::of(format!("{}\n{digest}", self.key).as_bytes()).hex())
    }

    /// Returns the location of a pending upload of this content, if any.
    pub(super) fn recall(&self, digest: &Digest) -> Option<String> {
        std::fs::read_to_string(self.path(digest)).ok().map(|text| text.trim().to_owned())
    }

    /// Stores the location. A cache that cannot be written does not prevent a push.
    pub(super) fn keep(&self, digest: &Digest, location: &str) {
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.path(digest));
        let _ = file.and_then(|mut file| writeln!(file, "{location}"));
    }

    /// Removes the entry of an upload that ended or was lost.
    pub(super) fn forget(&self, digest: &Digest) {
        let _ = std::fs::remove_file(self.path(digest));
    }
}
