//! Which uploads are under way, over runs of the program: a small file for each, named by what it uploads where. It holds no secret:
//! whoever knows an upload's place still needs a token. What is lost here costs only that something is sent again.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_trust::Digest;

use super::registry::Registry;

/// The uploads to one repository.
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

    /// Where the upload of this content goes on, if one was begun.
    pub(super) fn recall(&self, digest: &Digest) -> Option<String> {
        std::fs::read_to_string(self.path(digest)).ok().map(|text| text.trim().to_owned())
    }

    /// Keeps it. A cache that cannot be written is no reason not to push.
    pub(super) fn keep(&self, digest: &Digest, location: &str) {
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.path(digest));
        let _ = file.and_then(|mut file| writeln!(file, "{location}"));
    }

    /// Forgets it: it ended, or is gone.
    pub(super) fn forget(&self, digest: &Digest) {
        let _ = std::fs::remove_file(self.path(digest));
    }
}
