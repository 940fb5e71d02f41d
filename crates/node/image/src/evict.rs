//! Eviction of unused unpacked images.
//!
//! The policy: an unpacked image stays until its space is needed. It is evicted when the free space of the file system is
//! below the reserve of [`Limits`], or when a pending write would not leave the reserve free; least recently used images
//! first, and no more of them than needed. An image is never evicted while a cell on this node uses it, while it is held
//! ([`Images::hold`]: a pull or a start is in progress), or while it is being unpacked or inspected. If eviction cannot free
//! enough, nothing is evicted, so an image that can never fit costs the others nothing.
//!
//! An image may also be evicted before that, because its owner needs the budget for another one: see `budget.rs`.
//!
//! The last use is the modification time of the image's record, and so survives a restart.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::document;
use crate::images::{RECORD, remove_tree, sync_folder};
use crate::room::{free_at, shortage};
use crate::unpack::measure;
use crate::{Digest, Error, Footprint, Images, Limits, Shortage, Source};

/// Protects an image from eviction, unpacked or not.
#[derive(Debug)]
pub struct ImageHold {
    held: Arc<Mutex<HashMap<Digest, usize>>>,
    digest: Digest,
}

impl Drop for ImageHold {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.digest);
            }
        }
    }
}

/// An image that may be evicted.
pub(crate) struct Candidate {
    pub(crate) digest: Digest,
    used_at: SystemTime,
    footprint: Footprint,
}

impl Images {
    /// Protects an image from eviction for as long as the hold lives. Take it before looking the image up.
    pub fn hold(&self, digest: &Digest) -> ImageHold {
        *self.held.lock().entry(*digest).or_default() += 1;
        ImageHold { held: self.held.clone(), digest: *digest }
    }

    /// Records the time of the last use. A missing image is ignored.
    pub fn mark_used(&self, digest: &Digest, at: SystemTime) -> Result<(), Error> {
        let path = self.home(digest).join(RECORD);
        match File::open(&path).and_then(|record| record.set_modified(at)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at("mark", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Evicts unused images until this image fits. `is_used` reports whether a cell uses an image.
    pub fn evict_for_image(
        &self,
        source: &Source,
        digest: &Digest,
        limits: &Limits,
        is_used: &dyn Fn(&Digest) -> bool,
    ) -> Result<(), Error> {
        let candidates = self.candidates(is_used)?;
        let free = self.free()?;
        let evictable = sum(&candidates);
        let most = Footprint {
            bytes: free.bytes.saturating_add(evictable.bytes).saturating_sub(limits.free.bytes),
            files: free.files.saturating_add(evictable.files).saturating_sub(limits.free.files),
        };
        let needed = measure(source, &document::plan(source, digest, limits)?, most, limits)?;
        match self.evict_until(candidates, needed, limits, is_used)? {
            None => Ok(()),
            short => Err(Error::NoRoom { digest: *digest, short }),
        }
    }

    /// Evicts unused images until this much can be written and the reserve stays free. Returns the short resource, if any.
    pub fn evict_for(
        &self,
        needed: Footprint,
        limits: &Limits,
        is_used: &dyn Fn(&Digest) -> bool,
    ) -> Result<Option<Shortage>, Error> {
        if shortage(self.free()?, needed, limits).is_none() {
            return Ok(None);
        }
        self.evict_until(self.candidates(is_used)?, needed, limits, is_used)
    }

    /// Evicts unused images while less than the reserve is free, even if that cannot free enough.
    pub fn evict_below_reserve(
        &self,
        limits: &Limits,
        is_used: &dyn Fn(&Digest) -> bool,
    ) -> Result<(), Error> {
        let nothing = Footprint::default();
        if shortage(self.free()?, nothing, limits).is_none() {
            return Ok(());
        }
        for candidate in self.candidates(is_used)? {
            if shortage(self.free()?, nothing, limits).is_none() {
                break;
            }
            self.evict(&candidate, is_used)?;
        }
        Ok(())
    }

    fn evict_until(
        &self,
        candidates: Vec<Candidate>,
        needed: Footprint,
        limits: &Limits,
        is_used: &dyn Fn(&Digest) -> bool,
    ) -> Result<Option<Shortage>, Error> {
        let (free, evictable) = (self.free()?, sum(&candidates));
        let afterwards = Footprint {
            bytes: free.bytes.saturating_add(evictable.bytes),
            files: free.files.saturating_add(evictable.files),
        };
        if shortage(afterwards, needed, limits).is_some() {
            return Ok(shortage(free, needed, limits));
        }
        for candidate in candidates {
            if shortage(self.free()?, needed, limits).is_none() {
                break;
            }
            self.evict(&candidate, is_used)?;
        }
        Ok(shortage(self.free()?, needed, limits))
    }

    fn free(&self) -> Result<Footprint, Error> {
        free_at(&self.folder).map_err(Error::at("read the free space of", &self.folder))
    }

    /// Returns the images that may be evicted, least recently used first.
    pub(crate) fn candidates(&self, is_used: &dyn Fn(&Digest) -> bool) -> Result<Vec<Candidate>, Error> {
        let is_held = |digest: &Digest| self.held.lock().contains_key(digest);
        let unused = self.list()?.into_iter().filter(|digest| !is_held(digest) && !is_used(digest));
        let mut candidates: Vec<Candidate> = unused
            .map(|digest| {
                let record = fs::metadata(self.home(&digest).join(RECORD));
                // Without a record no cell can start from it, so it is evicted first.
                let used_at = record.and_then(|facts| facts.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
                let footprint = self.footprint(&digest).unwrap_or_default();
                Candidate { digest, used_at, footprint }
            })
            .collect();
        candidates.sort_by_key(|candidate| (candidate.used_at, candidate.digest));
        Ok(candidates)
    }

    pub(crate) fn evict(
        &self,
        candidate: &Candidate,
        is_used: &dyn Fn(&Digest) -> bool,
    ) -> Result<(), Error> {
        let digest = &candidate.digest;
        let lock = self.open_lock(digest)?;
        if lock.try_lock().is_err() {
            return Ok(());
        }
        let (home, partial) = (self.home(digest), self.partial(digest));
        remove_tree(&partial)?;
        {
            // A start holds the image from before its lookup until its cell's record names it. So with this lock held, an
            // image without a hold and without a cell gets neither before it is moved.
            let held = self.held.lock();
            if held.contains_key(digest) || is_used(digest) {
                return Ok(());
            }
            match fs::rename(&home, &partial) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                moved => moved.map_err(Error::at("evict", &home))?,
            }
        }
        sync_folder(&self.folder)?;
        remove_tree(&partial)?;
        let bytes = candidate.footprint.bytes;
        tracing::info!(%digest, bytes, "evicted an unused image to free disk space");
        Ok(())
    }
}

fn sum(candidates: &[Candidate]) -> Footprint {
    candidates.iter().fold(Footprint::default(), |sum, candidate| Footprint {
        bytes: sum.bytes.saturating_add(candidate.footprint.bytes),
        files: sum.files.saturating_add(candidate.footprint.files),
    })
}
