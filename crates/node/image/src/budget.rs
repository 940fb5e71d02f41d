//! The part of the room for images that one owner may use.
//!
//! Unpacked images are the largest thing that a tenant can leave on a node, and count in no quota of the server. So each owner
//! has a budget here: an image counts for every owner that it was unpacked or used for, by its estimate of disk usage, until
//! it is evicted or the owner needs the budget for another image and no longer uses this one. Content that is being fetched
//! or unpacked counts too, so that many at once gain nothing. An owner can be within another one, as a project is within its
//! tenant: its images count for both, and an image of several owners counts once for the outer one.
//!
//! The charges are stored beside the images. If they are lost, images count again when they are used next.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::images::sync_folder;
use crate::room::free_at;
use crate::unpack::measure;
use crate::{Digest, Error, Footprint, Image, Images, Limits, Shortage, Source, document};

const FILE: &str = "owners.json";

/// The budget of an owner.
pub struct Budget<'b> {
    /// Name of the owner. The name of an owner within another begins with that name and a slash.
    pub owner: &'b str,
    /// Most that its images may use together.
    pub most: Footprint,
    /// Reports whether a cell of the owner uses an image.
    pub is_used_by_owner: &'b dyn Fn(&Digest) -> bool,
    /// Reports whether any cell uses an image.
    pub is_used: &'b dyn Fn(&Digest) -> bool,
    /// Budget of the owner around it, which must have room too.
    pub within: Option<&'b Budget<'b>>,
}

impl Budget<'_> {
    /// Returns this budget and those around it.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.within)
    }
}

/// Reports whether `name` is the owner, or is within it.
fn belongs_to(name: &str, owner: &str) -> bool {
    name.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Charges of all owners.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    charged: BTreeMap<String, BTreeMap<Digest, Footprint>>,
    /// Content that is being fetched or unpacked.
    pending: BTreeMap<(String, Digest), Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    footprint: Footprint,
    users: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    owner: String,
    digest: Digest,
    footprint: Footprint,
}

impl Ledger {
    pub(crate) fn read(images: &Images) -> Self {
        let mut ledger = Self::default();
        let Ok(text) = fs::read(images.folder.join(FILE)) else { return ledger };
        match serde_json::from_slice::<Vec<Entry>>(&text) {
            Ok(entries) => {
                for Entry { owner, digest, footprint } in entries {
                    ledger.charged.entry(owner).or_default().insert(digest, footprint);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the owners of images are not known; they count again when they are used")
            }
        }
        ledger
    }

    fn write(&self, images: &Images) -> Result<(), Error> {
        let entries: Vec<Entry> = self
            .charged
            .iter()
            .flat_map(|(owner, all)| all.iter().map(move |(digest, footprint)| (owner, digest, footprint)))
            .map(|(owner, digest, footprint)| Entry {
                owner: owner.clone(),
                digest: *digest,
                footprint: *footprint,
            })
            .collect();
        let (path, beside) = (images.folder.join(FILE), images.folder.join(format!("{FILE}.new")));
        let text = serde_json::to_vec(&entries).expect("charges are always JSON");
        fs::write(&beside, text).map_err(Error::at("write", &beside))?;
        fs::rename(&beside, &path).map_err(Error::at("write", &path))?;
        sync_folder(&images.folder)
    }

    /// Returns the images that count for an owner.
    fn charged_to(&self, owner: &str) -> BTreeMap<Digest, Footprint> {
        let all = self.charged.iter().filter(|(name, _)| belongs_to(name, owner));
        all.flat_map(|(_, charged)| charged).map(|(digest, footprint)| (*digest, *footprint)).collect()
    }

    /// Returns what an owner uses, without this image.
    fn used_beside(&self, owner: &str, digest: &Digest) -> Footprint {
        let mut used = self.charged_to(owner);
        let mut pending: BTreeMap<Digest, Footprint> = BTreeMap::new();
        for ((name, other), content) in &self.pending {
            if belongs_to(name, owner) && !used.contains_key(other) {
                let most = pending.entry(*other).or_default();
                *most = larger(*most, content.footprint);
            }
        }
        used.extend(pending);
        used.remove(digest);
        used.into_values().fold(Footprint::default(), add)
    }

    /// Ensures that an image of this size fits into the budgets.
    fn ensure_fits(&self, digest: &Digest, needed: Footprint, budget: &Budget<'_>) -> Result<(), Shortage> {
        for Budget { owner, most, .. } in budget.all() {
            let used = self.used_beside(owner, digest);
            if !is_within(add(used, needed), *most) {
                return Err(Shortage::Budget { most: *most, used, needed });
            }
        }
        Ok(())
    }
}

fn add(one: Footprint, other: Footprint) -> Footprint {
    Footprint { bytes: one.bytes.saturating_add(other.bytes), files: one.files.saturating_add(other.files) }
}

fn larger(one: Footprint, other: Footprint) -> Footprint {
    Footprint { bytes: one.bytes.max(other.bytes), files: one.files.max(other.files) }
}

fn is_within(used: Footprint, most: Footprint) -> bool {
    used.bytes <= most.bytes && used.files <= most.files
}

/// Counts content of an owner while it is fetched or unpacked.
#[derive(Debug)]
pub struct ImageReservation {
    ledger: Arc<Mutex<Ledger>>,
    key: (String, Digest),
}

impl Drop for ImageReservation {
    fn drop(&mut self) {
        let mut ledger = self.ledger.lock();
        if let Some(pending) = ledger.pending.get_mut(&self.key) {
            pending.users -= 1;
            if pending.users == 0 {
                ledger.pending.remove(&self.key);
            }
        }
    }
}

impl ImageReservation {
    /// Raises the count of this content, unless that exceeds the budget.
    fn raise(&self, footprint: Footprint, budget: &Budget<'_>) -> Result<(), Shortage> {
        let mut ledger = self.ledger.lock();
        ledger.ensure_fits(&self.key.1, footprint, budget)?;
        if let Some(pending) = ledger.pending.get_mut(&self.key) {
            pending.footprint = larger(pending.footprint, footprint);
        }
        Ok(())
    }
}

impl Images {
    /// Returns the room for images: what they use, and what is free beside the reserve.
    pub fn room(&self, limits: &Limits) -> Result<Footprint, Error> {
        let free = free_at(&self.folder).map_err(Error::at("read the free space of", &self.folder))?;
        let images = self.list()?;
        let used = images.iter().map(|digest| self.footprint(digest).unwrap_or_default());
        let all = used.fold(free, add);
        Ok(Footprint {
            bytes: all.bytes.saturating_sub(limits.free.bytes),
            files: all.files.saturating_sub(limits.free.files),
        })
    }

    /// Counts content before it is fetched, so that it fits into the owner's budget. Images that the owner no longer uses are
    /// given up for it.
    pub fn reserve(
        &self,
        digest: &Digest,
        bytes: u64,
        budget: &Budget<'_>,
    ) -> Result<ImageReservation, Error> {
        self.forget_evicted(budget)?;
        let (reservation, needed) = (self.begin(digest, budget), Footprint { bytes, files: 1 });
        if reservation.raise(needed, budget).is_err() {
            self.give_up_for(needed, digest, budget)?;
            reservation.raise(needed, budget).map_err(|short| Error::over_budget(digest, short))?;
        }
        Ok(reservation)
    }

    /// Like [`Images::ensure`], within the budget of an owner, for which the image counts from then on.
    pub fn ensure_within(
        &self,
        source: &Source,
        digest: &Digest,
        limits: &Limits,
        budget: &Budget<'_>,
    ) -> Result<Image, Error> {
        self.forget_evicted(budget)?;
        let reservation = self.begin(digest, budget);
        let allowance = |footprint| reservation.raise(footprint, budget);
        let ensure = || self.ensure_allowed(source, digest, limits, Some(&allowance));
        let image = match ensure() {
            Err(Error::OverBudget { .. }) => {
                let plan = document::plan(source, digest, limits)?;
                let needed = measure(source, &plan, budget.most, limits)?;
                self.give_up_for(needed, digest, budget)?;
                ensure()
            }
            ensured => ensured,
        }?;
        self.charge(digest, budget)?;
        Ok(image)
    }

    /// Counts an unpacked image for an owner.
    fn charge(&self, digest: &Digest, budget: &Budget<'_>) -> Result<(), Error> {
        let footprint = self.footprint(digest)?;
        let is_charged = |ledger: &Ledger| {
            ledger.charged.get(budget.owner).is_some_and(|charged| charged.contains_key(digest))
        };
        let is_known = {
            let ledger = self.ledger.lock();
            is_charged(&ledger) || ledger.ensure_fits(digest, footprint, budget).is_ok()
        };
        if !is_known {
            self.give_up_for(footprint, digest, budget)?;
        }
        let mut ledger = self.ledger.lock();
        if is_charged(&ledger) {
            return Ok(());
        }
        ledger.ensure_fits(digest, footprint, budget).map_err(|short| Error::over_budget(digest, short))?;
        ledger.charged.entry(budget.owner.to_owned()).or_default().insert(*digest, footprint);
        ledger.write(self)
    }

    fn begin(&self, digest: &Digest, budget: &Budget<'_>) -> ImageReservation {
        let key = (budget.owner.to_owned(), *digest);
        self.ledger.lock().pending.entry(key.clone()).or_default().users += 1;
        ImageReservation { ledger: self.ledger.clone(), key }
    }

    /// Drops the charges of evicted images.
    fn forget_evicted(&self, budget: &Budget<'_>) -> Result<(), Error> {
        let mut ledger = self.ledger.lock();
        let mut is_changed = false;
        for (name, charged) in &mut ledger.charged {
            if budget.all().any(|budget| belongs_to(name, budget.owner)) {
                let before = charged.len();
                charged.retain(|digest, _| self.home(digest).exists());
                is_changed |= charged.len() != before;
            }
        }
        if is_changed { ledger.write(self) } else { Ok(()) }
    }

    /// Gives up images until this much fits into the budgets.
    fn give_up_for(&self, needed: Footprint, digest: &Digest, budget: &Budget<'_>) -> Result<(), Error> {
        budget.all().try_for_each(|budget| self.give_up_within(needed, digest, budget))
    }

    /// Gives up images that the owner no longer uses, the least recently used first, until this much fits into its budget; none
    /// if that cannot make it fit. One that counts for no other owner is evicted.
    fn give_up_within(&self, needed: Footprint, digest: &Digest, budget: &Budget<'_>) -> Result<(), Error> {
        let Budget { owner, most, .. } = *budget;
        let is_held = |other: &Digest| self.held.lock().contains_key(other);
        let charged = self.ledger.lock().charged_to(owner);
        let unused = |other: &Digest| {
            other != digest
                && charged.contains_key(other)
                && !is_held(other)
                && !(budget.is_used_by_owner)(other)
        };
        let candidates = self.candidates(&|other: &Digest| !unused(other))?;
        let used = self.ledger.lock().used_beside(owner, digest);
        let kept = candidates.iter().filter_map(|candidate| charged.get(&candidate.digest)).fold(
            used,
            |left, one| Footprint {
                bytes: left.bytes.saturating_sub(one.bytes),
                files: left.files.saturating_sub(one.files),
            },
        );
        if !is_within(add(kept, needed), most) {
            return Err(Error::over_budget(digest, Shortage::Budget { most, used, needed }));
        }
        for candidate in candidates {
            let is_shared = {
                let mut ledger = self.ledger.lock();
                if is_within(add(ledger.used_beside(owner, digest), needed), most) {
                    return Ok(());
                }
                for (name, charged) in &mut ledger.charged {
                    if belongs_to(name, owner) {
                        charged.remove(&candidate.digest);
                    }
                }
                ledger.write(self)?;
                ledger.charged.values().any(|charged| charged.contains_key(&candidate.digest))
            };
            if !is_shared {
                self.evict(&candidate, budget.is_used)?;
            }
        }
        Ok(())
    }
}
