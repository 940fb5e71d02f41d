//! Checks whether a request fits an app: a pure function from a manifest and a request to an answer with reasons, and the
//! smallest change that would make it fit. It runs before anything is spent: for the catalog, and for new instances.
//!
//! Free capacity is not considered here; that is up to placement.

#[cfg(test)]
mod proof;
mod search;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{Capacity, Component, Manifest, Quorum, Reach, Shape};

/// The request: these members, in these allocations, of this shape, at this site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// Shape of all its allocations.
    pub shape: Shape,
    /// The allocations. One without seats does not count.
    pub places: Vec<PlannedAllocation>,
    /// Features of the site.
    pub site: Site,
}

/// One allocation, and the members in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedAllocation {
    /// Capacity for these members: all of a new allocation, or the free part of an existing one.
    pub capacity: Capacity,
    /// The members in it.
    pub seats: Vec<MemberGroup>,
}

/// Members of one component in one allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberGroup {
    /// Key of the component.
    pub component: String,
    /// Number of members.
    pub count: i64,
    /// Capacity of each member.
    pub each: Capacity,
}

/// Features that a site offers to every instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Whether members in slices of several allocations can share one flat network. Whole machines always can.
    pub slice_network_crosses_allocations: bool,
}

/// Default distribution of members over allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// All in one allocation.
    Together,
    /// Each in an allocation of its own.
    Apart,
}

/// Result of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Whether it fits.
    pub fits: bool,
    /// Reasons against it, one sentence each.
    pub reasons: Vec<String>,
    /// The smallest change that would make it fit; none if it fits, or if no change known here would help.
    pub change: Option<Suggestion>,
}

/// Changes that make a request fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Message for users.
    pub message: String,
    /// The changes.
    pub changes: Vec<Change>,
    /// The changed request, which fits.
    pub ask: Ask,
}

/// One change to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Use allocations of this shape.
    Shape(Shape),
    /// Put all members into one allocation, of at least this capacity.
    OneAllocation(Capacity),
    /// Use a larger allocation.
    Room {
        /// Index of the allocation, from 0.
        place: usize,
        /// Minimum capacity.
        capacity: Capacity,
    },
    /// Request more GPUs for each member of a component.
    Gpus {
        /// Key of the component.
        component: String,
        /// Minimum for each member.
        each: i64,
    },
    /// Change the number of members of a component.
    Members {
        /// Key of the component.
        component: String,
        /// Total number.
        count: i64,
    },
}

impl Ask {
    /// Builds the catalog's request: the manifest's default number of members, in allocations that are just large enough.
    pub fn of(manifest: &Manifest, shape: Shape, spread: Spread, site: Site) -> Self {
        let seat = |component: &Component, count| MemberGroup {
            component: component.key.clone(),
            count,
            each: component.capacity,
        };
        let wanted = |component: &Component| component.count.default.unwrap_or(component.count.min);
        let places = match spread {
            Spread::Together => {
                let seats = manifest.components.iter().map(|one| seat(one, wanted(one))).collect();
                vec![PlannedAllocation::for_seats(seats)]
            }
            Spread::Apart => manifest
                .components
                .iter()
                .flat_map(|one| {
                    (0..wanted(one)).map(move |_| PlannedAllocation::for_seats(vec![seat(one, 1)]))
                })
                .collect(),
        };
        Self { shape, places, site }
    }

    /// Returns the total number of members of a component.
    fn count(&self, key: &str) -> i64 {
        let seats = self.places.iter().flat_map(|place| &place.seats);
        seats
            .filter(|seat| seat.component == key)
            .fold(0, |sum: i64, seat| sum.saturating_add(seat.count.max(0)))
    }

    fn gpus(&self) -> i64 {
        self.places.iter().fold(0, |sum: i64, place| sum.saturating_add(place.need().gpus))
    }

    fn is_spread(&self) -> bool {
        self.places.iter().filter(|place| !place.is_empty()).count() > 1
    }
}

impl PlannedAllocation {
    /// Builds an allocation that is just large enough.
    pub fn for_seats(seats: Vec<MemberGroup>) -> Self {
        let mut place = Self { capacity: NOTHING, seats };
        place.capacity = place.need();
        place
    }

    /// Returns the total capacity requested by its members.
    fn need(&self) -> Capacity {
        self.seats.iter().fold(NOTHING, |sum, seat| {
            let add = |sum: i64, each: i64| sum.saturating_add(each.saturating_mul(seat.count.max(0)));
            each_of(sum, seat.each, add)
        })
    }

    fn is_empty(&self) -> bool {
        self.seats.iter().all(|seat| seat.count < 1)
    }

    fn holds(&self) -> bool {
        each_of(self.capacity, self.need(), i64::max) == self.capacity
    }
}

const NOTHING: Capacity = Capacity { gpus: 0, cpus: 0, memory_mb: 0, disk_mb: 0 };

/// Combines two capacities field by field.
fn each_of(one: Capacity, other: Capacity, together: impl Fn(i64, i64) -> i64) -> Capacity {
    Capacity {
        gpus: together(one.gpus, other.gpus),
        cpus: together(one.cpus, other.cpus),
        memory_mb: together(one.memory_mb, other.memory_mb),
        disk_mb: together(one.disk_mb, other.disk_mb),
    }
}

fn in_words(capacity: Capacity) -> String {
    let Capacity { gpus, cpus, memory_mb, disk_mb } = capacity;
    let many = |number: i64, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let (gpus, cpus) = (many(gpus, "GPU"), many(cpus, "CPU"));
    format!("{gpus}, {cpus}, {memory_mb} MiB of memory and {disk_mb} MiB of disk")
}

/// Returns the minimum number of members with which a component works.
fn floor(component: &Component) -> i64 {
    match component.quorum {
        Some(Quorum::AtLeast(least)) => component.count.min.max(least),
        Some(Quorum::Majority) | None => component.count.min,
    }
}

/// Checks whether a request fits, with the reasons and a suggestion if not.
pub fn compatible(manifest: &Manifest, ask: &Ask) -> Answer {
    let reasons = reasons(manifest, ask);
    if reasons.is_empty() {
        return Answer { fits: true, reasons, change: None };
    }
    Answer { fits: false, reasons, change: search::smallest(manifest, ask) }
}

fn reasons(manifest: &Manifest, ask: &Ask) -> Vec<String> {
    let mut reasons = Vec::new();
    shape(manifest, ask, &mut reasons);
    members(manifest, ask, &mut reasons);
    room(ask, &mut reasons);
    network(manifest, ask, &mut reasons);
    reasons
}

fn shape(manifest: &Manifest, ask: &Ask, reasons: &mut Vec<String>) {
    let wanted = &manifest.compatibility.requires_capacity_shape;
    if !wanted.contains(&ask.shape) {
        let wanted: Vec<&str> = wanted.iter().map(|shape| shape.as_str()).collect();
        reasons.push(format!(
            "it runs in {} allocations, not in {}",
            wanted.join(" or "),
            ask.shape.as_str()
        ));
    }
    if manifest.compatibility.requires_exclusive_node && ask.shape == Shape::GpuSlice {
        reasons.push("it must be alone on its nodes, and a gpu_slice shares one".to_owned());
    }
}

fn members(manifest: &Manifest, ask: &Ask, reasons: &mut Vec<String>) {
    let seats = ask.places.iter().flat_map(|place| &place.seats).filter(|seat| seat.count > 0);
    let strangers: BTreeSet<&str> =
        seats.map(|seat| seat.component.as_str()).filter(|key| manifest.component(key).is_none()).collect();
    reasons.extend(strangers.into_iter().map(|key| format!("it has no component {key}")));
    for component in &manifest.components {
        let (key, count) = (&component.key, ask.count(&component.key));
        if count < component.count.min {
            reasons.push(format!(
                "it needs at least {} of {key}, and {count} are requested",
                component.count.min
            ));
        } else if count < floor(component) {
            reasons.push(format!("{key} needs at least {}, and {count} are requested", floor(component)));
        }
        if count > component.count.max {
            reasons.push(format!(
                "it allows at most {} of {key}, and {count} are requested",
                component.count.max
            ));
        }
    }
    let (least, gpus) = (manifest.compatibility.min_gpu_count, ask.gpus());
    if gpus < least {
        reasons.push(format!("it needs {least} GPUs in total, and its members request {gpus}"));
    }
}

fn room(ask: &Ask, reasons: &mut Vec<String>) {
    for (index, place) in ask.places.iter().enumerate().filter(|(_, place)| !place.holds()) {
        reasons.push(format!(
            "allocation {} has {}, and its members request {}",
            index + 1,
            in_words(place.capacity),
            in_words(place.need())
        ));
    }
}

/// Checks that members can reach each other as required. Components without a declared `reach` may still belong together;
/// members of a single-component app are independent, and an app of several components declares by `reach` that they can be
/// apart.
fn network(manifest: &Manifest, ask: &Ask, reasons: &mut Vec<String>) {
    if !ask.is_spread() {
        return;
    }
    let present: Vec<&Component> =
        manifest.components.iter().filter(|component| ask.count(&component.key) > 0).collect();
    let crosses = ask.shape == Shape::Baremetal || ask.site.slice_network_crosses_allocations;
    for component in &present {
        let key = &component.key;
        match component.reach {
            Reach::Flat if !crosses => reasons.push(format!(
                "{key} needs one flat network, and here that of gpu_slice allocations does not span several of them"
            )),
            Reach::None if present.len() > 1 => reasons
                .push(format!("{key} declares no reach, so all members must be in one allocation, and they are not")),
            Reach::Flat | Reach::Routed | Reach::None => {}
        }
    }
}
