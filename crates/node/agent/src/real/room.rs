//! Disk space on the node: unused images are evicted when other data needs it. `muster_image` defines the policy.

use jiff::{SignedDuration, Timestamp};
use muster_ids::CellId;
use muster_image::{Budget, Digest, Error, Footprint, Image, ImageHold, ImageReservation, Limits, Source};
use muster_wire::cell::Root;

use super::cell::unusable;
use super::sandbox::Kept;
use super::{Done, Driver, said};
use crate::driver::{ImageOwner, Undone};

/// Interval of the comparison of free space and reserve.
const RESERVE_EVERY: SignedDuration = SignedDuration::from_mins(1);
const MIB: u64 = 1 << 20;

/// Returns the part of the room for images that the projects of one tenant have together: half of what one project leaves
/// stays free for other tenants.
fn tenant_images_percent(project: u8) -> u8 {
    let project = project.min(100);
    project + (100 - project) / 2
}

impl Driver {
    /// Reports whether a cell on this node uses an image. A failed lookup counts as use.
    pub(super) fn is_image_used(&self, digest: &Digest) -> bool {
        self.cells.uses_image(&self.images.rootfs(digest)).unwrap_or(true)
    }

    /// Protects an image from eviction, unpacked or not.
    pub(crate) fn hold_image(&self, digest: &Digest) -> ImageHold {
        self.images.hold(digest)
    }

    /// Protects the image of a cell until the cell's record names it.
    pub(super) fn hold_root(&self, root: &Root) -> Option<ImageHold> {
        match root {
            Root::Image(digest) => digest.parse().ok().map(|digest| self.images.hold(&digest)),
            Root::Host(_) => None,
        }
    }

    /// Unpacks an image within the budget of its project, or returns it if it exists. Unused images are evicted if that makes
    /// it fit.
    pub(super) fn unpack_image(
        &self,
        source: &Source,
        digest: &Digest,
        owner: ImageOwner,
    ) -> Result<Image, Undone> {
        let limits = Limits::default();
        let ensure = || {
            self.within_budget(owner, |budget| match budget {
                Some(budget) => self.images.ensure_within(source, digest, &limits, budget),
                None => self.images.ensure(source, digest, &limits),
            })
        };
        let image = match ensure() {
            Err(Error::NoRoom { .. }) => {
                let is_used = |digest: &Digest| self.is_image_used(digest);
                self.images.evict_for_image(source, digest, &limits, &is_used).and_then(|()| ensure())
            }
            ended => ended,
        };
        let image = image.map_err(unusable)?;
        self.mark_image_used(digest);
        Ok(image)
    }

    /// Counts content against the budget of a project before it is fetched; none where there is no budget.
    pub(crate) fn reserve_image(
        &self,
        digest: &Digest,
        bytes: u64,
        owner: ImageOwner,
    ) -> Result<Option<ImageReservation>, Undone> {
        let reserve = |budget: Option<&Budget<'_>>| {
            budget.map(|budget| self.images.reserve(digest, bytes, budget)).transpose()
        };
        self.within_budget(owner, reserve).map_err(unusable)
    }

    /// Calls `act` with the budget of a project: a part of the room for images, within the part of its tenant. A project that has
    /// the node to itself has none.
    fn within_budget<T>(
        &self,
        owner: ImageOwner,
        act: impl FnOnce(Option<&Budget<'_>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let ImageOwner { project, tenant, exclusive } = owner;
        if exclusive {
            return act(None);
        }
        let room = self.images.room(&Limits::default())?;
        let part = |percent: u8| {
            let of =
                |all: u64| u64::try_from(u128::from(all) * u128::from(percent) / 100).unwrap_or(u64::MAX);
            Footprint { bytes: of(room.bytes), files: of(room.files) }
        };
        let is_used = |digest: &Digest| self.is_image_used(digest);
        let used_by_project =
            |digest: &Digest| self.is_image_used_by(digest, |kept| kept.project == Some(project));
        let used_by_tenant =
            |digest: &Digest| self.is_image_used_by(digest, |kept| kept.tenant == Some(tenant));
        let percent = self.settings.project_images_percent;
        let tenant = tenant.to_string();
        let of_tenant = Budget {
            owner: &tenant,
            most: part(tenant_images_percent(percent)),
            is_used_by_owner: &used_by_tenant,
            is_used: &is_used,
            within: None,
        };
        let name = format!("{tenant}/{project}");
        act(Some(&Budget {
            owner: &name,
            most: part(percent),
            is_used_by_owner: &used_by_project,
            is_used: &is_used,
            within: Some(&of_tenant),
        }))
    }

    /// Reports whether a cell uses an image in an allocation for which `is_of` holds. A failed lookup counts as use.
    fn is_image_used_by(&self, digest: &Digest, is_of: impl Fn(&Kept) -> bool) -> bool {
        let allocations = self.held().filtered(is_of);
        let Ok(cells) = self.cells.list() else { return true };
        let mut cells = cells.iter().filter(|cell| allocations.contains(&cell.allocation_id));
        cells.any(|cell| match self.cells.image(cell.cell_id) {
            Ok(used) => used.is_some_and(|used| used == digest.to_string()),
            Err(_) => true,
        })
    }

    /// Evicts unused images until `bytes` can be written beside the reserve, if that can free enough.
    pub(crate) fn evict_for(&self, bytes: u64) {
        self.evict_within(bytes, &Limits::default());
    }

    fn evict_within(&self, bytes: u64, limits: &Limits) {
        let (needed, is_used) = (Footprint { bytes, files: 1 }, |digest: &Digest| self.is_image_used(digest));
        if let Err(error) = self.images.evict_for(needed, limits, &is_used) {
            tracing::warn!(%error, "unused images could not be evicted");
        }
    }

    /// Creates or grows a disk by `mb` MiB. Unused images are evicted if that makes it fit, up to the last byte: the space
    /// of disks was offered to allocations, and images only borrow it.
    pub(super) fn with_room_for_disk<T>(
        &self,
        mb: u64,
        make: impl Fn() -> Result<T, muster_disk::Error>,
    ) -> Done<T> {
        match make() {
            Err(muster_disk::Error::NoSpace { .. }) => {
                let limits = Limits { free: Footprint::default(), ..Limits::default() };
                self.evict_within(mb.saturating_mul(MIB), &limits);
                make().map_err(said)
            }
            made => made.map_err(said),
        }
    }

    /// Evicts unused images while the reserve is not free, whatever filled it.
    pub(super) fn look_after_images(&self, now: Timestamp) {
        {
            let mut last = self.reserve_checked.lock();
            if last.is_some_and(|last| now.duration_since(last) < RESERVE_EVERY) {
                return;
            }
            *last = Some(now);
        }
        let is_used = |digest: &Digest| self.is_image_used(digest);
        if let Err(error) = self.images.evict_below_reserve(&Limits::default(), &is_used) {
            tracing::warn!(%error, "unused images could not be evicted; retrying");
        }
    }

    /// Returns the image of a cell on this node. Destroying the last cell that uses an image counts as its last use.
    pub(super) fn image_of(&self, cell: CellId) -> Option<Digest> {
        self.cells.image(cell).ok().flatten().and_then(|digest| digest.parse().ok())
    }

    pub(super) fn mark_image_used(&self, digest: &Digest) {
        if let Err(error) = self.images.mark_used(digest, self.env.now().into()) {
            tracing::warn!(%error, "the last use of an image is not recorded");
        }
    }
}
