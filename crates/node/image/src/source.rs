//! Sources of blobs.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use crate::digest::Metered;
use crate::{Digest, Error, Limits};

/// Source of an image's blobs. It is untrusted: digests decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder in the OCI image layout: `oci-layout`, `index.json`, `blobs/sha256/…`.
    ///
    /// Its `index.json` is not read: blobs are requested by digest, and a listing does not change their content.
    Layout(PathBuf),
}

impl Source {
    /// Opens a blob, with unverified content.
    pub(crate) fn open(&self, digest: &Digest) -> Result<File, Error> {
        let Self::Layout(folder) = self;
        let path = folder.join("blobs").join("sha256").join(digest.hex());
        // Non-blocking, so that a pipe in place of a blob cannot block the caller forever.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(rustix::io::Errno::NOENT) => {
                return Err(Error::Missing { source_name: folder.display().to_string(), digest: *digest });
            }
            Err(error) => return Err(Error::at("open", &path)(error.into())),
        };
        if !file.metadata().map_err(Error::at("inspect", &path))?.is_file() {
            return Err(Error::Damaged { blob: *digest, why: "it is not a regular file".to_owned() });
        }
        Ok(file)
    }

    /// Reads and verifies a complete document. `size` is from the descriptor that leads to it, if any.
    pub(crate) fn document(
        &self,
        digest: &Digest,
        size: Option<u64>,
        limits: &Limits,
    ) -> Result<Vec<u8>, Error> {
        let most = limits.document_bytes;
        let too_long =
            || Error::Document { document: *digest, why: format!("it is longer than {most} bytes") };
        if size.is_some_and(|size| size > most) {
            return Err(too_long());
        }
        let mut reader = Metered::new(self.open(digest)?, u64::MAX, String::new());
        let mut bytes = Vec::new();
        let copied = io::copy(&mut (&mut reader).take(most + 1), &mut bytes);
        copied.map_err(Error::node(format!("read {digest}")))?;
        let (length, found) = reader.finish();
        if length > most {
            return Err(too_long());
        }
        verify(digest, size, length, &found)?;
        Ok(bytes)
    }
}

/// Verifies a fully read blob against its digest and size.
pub(crate) fn verify(digest: &Digest, size: Option<u64>, length: u64, found: &Digest) -> Result<(), Error> {
    if let Some(size) = size.filter(|size| *size != length) {
        let why = format!("it has {length} bytes, but {size} in its descriptor");
        return Err(Error::Damaged { blob: *digest, why });
    }
    if found != digest {
        return Err(Error::Damaged { blob: *digest, why: format!("its content has the digest {found}") });
    }
    Ok(())
}
