//! Searches for the smallest change: tries every combination of the changes below, fewest first, and returns the first that
//! fits.

use std::collections::BTreeMap;

use super::{Ask, Change, MemberGroup, PlannedAllocation, Suggestion, each_of, floor, in_words, reasons};
use crate::{Capacity, Component, Manifest, Shape};

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Shape,
    OneAllocation,
    Room,
    Gpus,
    MoreMembers,
    FewerMembers,
}

/// Preference of changes: first those that only move members, then those that cost more, and last those that change the
/// instance.
pub(super) const ORDER: [Kind; 6] =
    [Kind::Shape, Kind::OneAllocation, Kind::Room, Kind::Gpus, Kind::MoreMembers, Kind::FewerMembers];

/// Order in which several changes are applied, so that each builds on the previous: number of members, their capacity, their
/// allocations, and the size of those.
const MADE: [Kind; 6] =
    [Kind::FewerMembers, Kind::MoreMembers, Kind::Gpus, Kind::OneAllocation, Kind::Shape, Kind::Room];

/// Returns every combination in the order of the search: fewer changes first; among equals, the one with the most preferred
/// worst change.
pub(super) fn combinations() -> Vec<Vec<Kind>> {
    let mut sets: Vec<u32> = (1..1 << ORDER.len()).collect();
    sets.sort_by_key(|set| (set.count_ones(), *set));
    let kinds = |set: u32| {
        let chosen = ORDER.iter().enumerate().filter(move |(index, _)| set & (1 << index) != 0);
        chosen.map(|(_, kind)| *kind).collect()
    };
    sets.into_iter().map(kinds).collect()
}

pub(super) fn smallest(manifest: &Manifest, ask: &Ask) -> Option<Suggestion> {
    combinations().into_iter().find_map(|kinds| {
        let (changes, changed) = made(manifest, ask, &kinds)?;
        reasons(manifest, &changed).is_empty().then(|| Suggestion {
            message: sentence(&changes),
            changes,
            ask: changed,
        })
    })
}

/// Applies all these changes to the request; `None` if one of them has nothing to change.
pub(super) fn made(manifest: &Manifest, ask: &Ask, kinds: &[Kind]) -> Option<(Vec<Change>, Ask)> {
    let (mut ask, mut changes) = (ask.clone(), Vec::new());
    for kind in MADE.into_iter().filter(|kind| kinds.contains(kind)) {
        let made = match kind {
            Kind::Shape => other_shape(&mut ask),
            Kind::OneAllocation => one_allocation(&mut ask),
            Kind::Room => larger(&mut ask),
            Kind::Gpus => more_gpus(manifest, &mut ask),
            Kind::MoreMembers => counted(manifest, &mut ask, more_members),
            Kind::FewerMembers => counted(manifest, &mut ask, fewer_members),
        };
        if made.is_empty() {
            return None;
        }
        changes.extend(made);
    }
    Some((changes, ask))
}

fn other_shape(ask: &mut Ask) -> Vec<Change> {
    ask.shape = match ask.shape {
        Shape::Baremetal => Shape::GpuSlice,
        Shape::GpuSlice => Shape::Baremetal,
    };
    vec![Change::Shape(ask.shape)]
}

fn one_allocation(ask: &mut Ask) -> Vec<Change> {
    if !ask.is_spread() {
        return Vec::new();
    }
    let mut seats: Vec<MemberGroup> = Vec::new();
    for seat in ask.places.iter().flat_map(|place| &place.seats).filter(|seat| seat.count > 0) {
        match seats.iter_mut().find(|other| other.component == seat.component && other.each == seat.each) {
            Some(same) => same.count = same.count.saturating_add(seat.count),
            None => seats.push(seat.clone()),
        }
    }
    let exact = PlannedAllocation::for_seats(seats);
    let need = exact.capacity;
    let there = ask
        .places
        .iter()
        .find(|place| PlannedAllocation { capacity: place.capacity, ..exact.clone() }.holds());
    let capacity = there.map_or(need, |place| place.capacity);
    ask.places = vec![PlannedAllocation { capacity, ..exact }];
    vec![Change::OneAllocation(need)]
}

fn larger(ask: &mut Ask) -> Vec<Change> {
    let mut changes = Vec::new();
    for (index, place) in ask.places.iter_mut().enumerate().filter(|(_, place)| !place.holds()) {
        place.capacity = each_of(place.capacity, place.need(), i64::max);
        changes.push(Change::Room { place: index, capacity: place.capacity });
    }
    changes
}

/// Raises the capacity of each member of one component to meet the app's minimum: of one with GPUs, if there is one.
fn more_gpus(manifest: &Manifest, ask: &mut Ask) -> Vec<Change> {
    let missing = manifest.compatibility.min_gpu_count - ask.gpus();
    let present = || manifest.components.iter().filter(|component| ask.count(&component.key) > 0);
    let chosen = present().find(|component| component.capacity.gpus > 0).or_else(|| present().next());
    let Some(component) = chosen.filter(|_| missing > 0) else { return Vec::new() };
    let seats =
        || ask.places.iter().flat_map(|place| &place.seats).filter(|seat| seat.component == component.key);
    let have: i64 = seats().map(|seat| seat.each.gpus.saturating_mul(seat.count.max(0))).sum();
    let (wanted, count) = (have + missing, ask.count(&component.key));
    let each = wanted / count + i64::from(wanted % count != 0);
    for seat in ask.places.iter_mut().flat_map(|place| &mut place.seats) {
        if seat.component == component.key {
            seat.each.gpus = seat.each.gpus.max(each);
        }
    }
    vec![Change::Gpus { component: component.key.clone(), each }]
}

/// Changes the numbers of members, and lists the changes by component.
fn counted(manifest: &Manifest, ask: &mut Ask, change: fn(&Manifest, &mut Ask)) -> Vec<Change> {
    let before = ask.clone();
    change(manifest, ask);
    let mut keys: Vec<&str> = manifest.components.iter().map(|component| component.key.as_str()).collect();
    for seat in before.places.iter().flat_map(|place| &place.seats) {
        if !keys.contains(&seat.component.as_str()) {
            keys.push(&seat.component);
        }
    }
    let changed = keys.into_iter().filter(|key| ask.count(key) != before.count(key));
    changed.map(|key| Change::Members { component: key.to_owned(), count: ask.count(key) }).collect()
}

fn more_members(manifest: &Manifest, ask: &mut Ask) {
    for component in &manifest.components {
        let missing = floor(component) - ask.count(&component.key);
        seat_more(ask, component, missing);
    }
    for component in &manifest.components {
        let missing = manifest.compatibility.min_gpu_count - ask.gpus();
        let each = each_now(ask, component).gpus;
        if missing > 0 && each > 0 {
            let free = component.count.max - ask.count(&component.key);
            seat_more(ask, component, free.min(missing / each + i64::from(missing % each != 0)));
        }
    }
}

fn each_now(ask: &Ask, component: &Component) -> Capacity {
    let mut seats = ask.places.iter().flat_map(|place| &place.seats).filter(|seat| seat.count > 0);
    seats.find(|seat| seat.component == component.key).map_or(component.capacity, |seat| seat.each)
}

/// Adds members where there is room; the rest go into the only allocation, or, if the members are apart, into one of their
/// own each.
fn seat_more(ask: &mut Ask, component: &Component, count: i64) {
    let each = each_now(ask, component);
    let mut left = count.max(0);
    for place in &mut ask.places {
        let more = left.min(fitting(place, each));
        seat_in(place, component, each, more);
        left -= more;
    }
    if let [only] = &mut ask.places[..] {
        seat_in(only, component, each, left);
        return;
    }
    let own = || {
        PlannedAllocation::for_seats(vec![MemberGroup { component: component.key.clone(), count: 1, each }])
    };
    ask.places.extend((0..left).map(|_| own()));
}

fn seat_in(place: &mut PlannedAllocation, component: &Component, each: Capacity, count: i64) {
    let same = |seat: &&mut MemberGroup| seat.component == component.key && seat.each == each;
    match place.seats.iter_mut().find(same) {
        Some(seat) => seat.count += count,
        None if count > 0 => place.seats.push(MemberGroup { component: component.key.clone(), count, each }),
        None => {}
    }
}

/// Returns how many more members of this capacity fit into an allocation.
fn fitting(place: &PlannedAllocation, each: Capacity) -> i64 {
    let need = place.need();
    let fit = |has: i64, need: i64, each: i64| match (has - need, each) {
        (left, _) if left < 0 => 0,
        (_, 0) => i64::MAX,
        (left, each) => left / each,
    };
    fit(place.capacity.gpus, need.gpus, each.gpus)
        .min(fit(place.capacity.cpus, need.cpus, each.cpus))
        .min(fit(place.capacity.memory_mb, need.memory_mb, each.memory_mb))
        .min(fit(place.capacity.disk_mb, need.disk_mb, each.disk_mb))
}

fn fewer_members(manifest: &Manifest, ask: &mut Ask) {
    for place in &mut ask.places {
        place.seats.retain(|seat| manifest.component(&seat.component).is_some());
    }
    for component in &manifest.components {
        let mut over = ask.count(&component.key) - component.count.max;
        let seats = ask.places.iter_mut().rev().flat_map(|place| &mut place.seats);
        for seat in seats.filter(|seat| seat.component == component.key) {
            let taken = over.clamp(0, seat.count.max(0));
            seat.count -= taken;
            over -= taken;
        }
    }
    // Number of members of each component that may be removed.
    let mut spare: BTreeMap<&str, i64> = manifest
        .components
        .iter()
        .map(|component| (component.key.as_str(), ask.count(&component.key) - floor(component)))
        .collect();
    for place in &mut ask.places {
        while !place.holds() {
            let Some(index) = dispensable(place, &spare) else { break };
            let seat = &mut place.seats[index];
            seat.count -= 1;
            if let Some(spare) = spare.get_mut(seat.component.as_str()) {
                *spare -= 1;
            }
        }
        place.seats.retain(|seat| seat.count > 0);
    }
}

/// Returns the component from which an overfull allocation can best lose a member: the one with the most to spare.
fn dispensable(place: &PlannedAllocation, spare: &BTreeMap<&str, i64>) -> Option<usize> {
    let need = place.need();
    let helps = |seat: &MemberGroup| {
        (need.gpus > place.capacity.gpus && seat.each.gpus > 0)
            || (need.cpus > place.capacity.cpus && seat.each.cpus > 0)
            || (need.memory_mb > place.capacity.memory_mb && seat.each.memory_mb > 0)
            || (need.disk_mb > place.capacity.disk_mb && seat.each.disk_mb > 0)
    };
    let may_go =
        |seat: &MemberGroup| spare.get(seat.component.as_str()).copied().unwrap_or(0).min(seat.count);
    let seats = place.seats.iter().enumerate().filter(|(_, seat)| may_go(seat) > 0 && helps(seat));
    seats.max_by_key(|(index, seat)| (may_go(seat), *index)).map(|(index, _)| index)
}

fn sentence(changes: &[Change]) -> String {
    const MOST: usize = 4;
    let mut parts: Vec<String> = changes
        .iter()
        .take(MOST)
        .map(|change| match change {
            Change::Shape(shape) => format!("use {} allocations", shape.as_str()),
            Change::OneAllocation(capacity) => {
                format!("put all members into one allocation of at least {}", in_words(*capacity))
            }
            Change::Room { place, capacity } => {
                format!("give allocation {} at least {}", place + 1, in_words(*capacity))
            }
            Change::Gpus { component, each: 1 } => format!("request 1 GPU for each {component}"),
            Change::Gpus { component, each } => format!("request {each} GPUs for each {component}"),
            Change::Members { component, count: 0 } => format!("use no {component}"),
            Change::Members { component, count } => format!("use {count} of {component}"),
        })
        .collect();
    if changes.len() > MOST {
        parts.push(format!("and {} more changes like these", changes.len() - MOST));
    }
    parts.join("; ")
}
