//! Forecast for the allocations of a plan: whether they fit now, and which resource is short. Nothing is reserved: only a
//! claim is definite.

use muster_api::operation::Plan;
use muster_ids::ProjectId;
use muster_model::node::Capacity;
use muster_model::placement::{Resource, rooms_of, shortage, take_from};

use crate::{Cx, Result};

/// Allocations of one size in a plan.
pub(crate) struct PlannedAllocations<'p> {
    /// Component that they are for; empty if none.
    pub(crate) component: &'p str,
    pub(crate) count: i64,
    pub(crate) each: Capacity,
    pub(crate) exclusive: bool,
}

/// Records in a plan whether all allocations fit now, by quota and by nodes, and the shortage otherwise.
pub(crate) async fn foresee(
    cx: &Cx,
    project: ProjectId,
    planned: &[PlannedAllocations<'_>],
    plan: &mut Plan,
) -> Result<()> {
    let short = shortfall(cx, project, planned).await?;
    plan.fits_now = Some(short.is_none());
    plan.short = short;
    Ok(())
}

async fn shortfall(
    cx: &Cx,
    project: ProjectId,
    planned: &[PlannedAllocations<'_>],
) -> Result<Option<String>> {
    let store = &cx.platform.store;
    let quota = store.quota_lookup(project).await?;
    let (count, sum) = total(planned);
    if let Some(over) = quota.excess(count, &sum) {
        return Ok(Some(over));
    }
    let heard_since = cx.platform.engine.timing().heard_since(cx.now);
    if let [only] = planned
        && only.count == 1
    {
        let rooms = store.rooms(&only.each, heard_since).await?;
        return Ok(shortage(&only.each, only.exclusive, &rooms).map(|short| short.to_string()));
    }
    let mut nodes = store.free_nodes(heard_since).await?;
    for group in planned {
        for fitted in 0..group.count {
            if take_from(&mut nodes, &group.each, group.exclusive) {
                continue;
            }
            let short = shortage(&group.each, group.exclusive, &rooms_of(&nodes, &group.each));
            let short = short.map(|short| short.to_string()).unwrap_or_default();
            let PlannedAllocations { component, count, .. } = group;
            return Ok(Some(format!("{component}: {fitted} of {count} fit; the next {short}")));
        }
    }
    Ok(None)
}

/// Returns the number of allocations and their total capacity.
pub(crate) fn total(planned: &[PlannedAllocations<'_>]) -> (i64, Capacity) {
    let mut sum = Capacity::default();
    for group in planned {
        for resource in Resource::ALL {
            let amount = resource.amount_mut(&mut sum);
            *amount = amount.saturating_add(resource.amount(&group.each).saturating_mul(group.count));
        }
    }
    (planned.iter().map(|group| group.count).sum(), sum)
}
