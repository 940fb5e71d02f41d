//! Checks whether an instance fits, with its actual members and allocations, before anything is provisioned.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_ids::AllocationId;
use muster_manifest::{Ask, Capacity, Manifest, MemberGroup, PlannedAllocation, Shape, compatible};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::instance::Component;
use muster_model::member::Member;

use super::default_capacity;
use crate::app::site;
use crate::{Cx, Error, Result};

/// Members of one component to place: in an allocation of the project, or each in a new one.
pub(crate) struct Group<'g> {
    pub(crate) component: &'g str,
    pub(crate) count: i64,
    pub(crate) each: Capacity,
    pub(crate) allocation: Option<&'g Allocation>,
}

/// Returns the allocations of these members.
fn places(groups: &[Group<'_>]) -> Vec<PlannedAllocation> {
    let mut places = Vec::new();
    let mut held: BTreeMap<AllocationId, PlannedAllocation> = BTreeMap::new();
    for group in groups {
        let seat = |count| MemberGroup { component: group.component.to_owned(), count, each: group.each };
        match group.allocation {
            Some(allocation) => {
                let muster_model::node::Capacity { gpus, cpus, memory_mb, disk_mb } = allocation.capacity;
                let capacity = Capacity { gpus, cpus, memory_mb, disk_mb };
                let place = held
                    .entry(allocation.id)
                    .or_insert_with(|| PlannedAllocation { capacity, seats: Vec::new() });
                place.seats.push(seat(group.count));
            }
            None => places.extend((0..group.count).map(|_| PlannedAllocation::for_seats(vec![seat(1)]))),
        }
    }
    places.extend(held.into_values());
    places
}

/// Returns the project's own allocations that contain members.
pub(crate) async fn allocations_with_members(
    cx: &Cx,
    living: &[Member],
) -> Result<BTreeMap<AllocationId, Allocation>> {
    let store = &cx.platform.store;
    let mut held: BTreeMap<AllocationId, Allocation> = BTreeMap::new();
    for member in living.iter().filter(|member| !member.allocation_made) {
        if let Some(id) = member.allocation_id.filter(|id| !held.contains_key(id)) {
            held.extend(store.allocation_lookup(id).await?.map(|found| (id, found)));
        }
    }
    Ok(held)
}

/// Returns the existing members, each with its allocation.
pub(crate) fn existing_groups<'g>(
    manifest: &Manifest,
    components: &[Component],
    living: impl IntoIterator<Item = &'g Member>,
    held: &'g BTreeMap<AllocationId, Allocation>,
) -> Vec<Group<'g>> {
    let group = |member: &'g Member| {
        let component = components.iter().find(|component| component.key == member.component_key)?;
        let allocation = member.allocation_id.and_then(|id| held.get(&id));
        let each = default_capacity(manifest, component)?;
        Some(Group { component: &member.component_key, count: 1, each, allocation })
    };
    living.into_iter().filter_map(group).collect()
}

/// Checks whether they fit in allocations of this shape; otherwise returns the reason and the smallest change that would
/// help.
pub(crate) fn ensure_groups_fit(
    cx: &Cx,
    manifest: &Manifest,
    shape: Shape,
    groups: &[Group<'_>],
) -> Result<()> {
    let answer = compatible(manifest, &Ask { shape, places: places(groups), site: site(cx) });
    if answer.fits {
        return Ok(());
    }
    let change =
        answer.change.map(|change| format!("; this would fit: {}", change.message)).unwrap_or_default();
    Err(Error::new(Code::Incompatible, format!("{}{change}", answer.reasons.join("; "))))
}

/// Converts a shape.
pub(crate) fn shape_of(shape: AllocationShape) -> Shape {
    match shape {
        AllocationShape::Baremetal => Shape::Baremetal,
        AllocationShape::GpuSlice => Shape::GpuSlice,
    }
}

/// Ensures that members can be placed in an allocation of the project.
pub(crate) fn ensure_active(field: &str, allocation: &Allocation) -> Result<()> {
    if allocation.state == AllocationState::Active {
        return Ok(());
    }
    let why = format!("{} is {}: members need an active allocation", allocation.name, allocation.state);
    Err(Error::field(field, why))
}
