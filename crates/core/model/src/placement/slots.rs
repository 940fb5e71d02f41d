//! Chooses slots of a node.

use std::collections::{BTreeMap, BTreeSet};

use muster_ids::SlotId;

/// One free (approved, unclaimed) slot, as far as placement is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FreeSlot {
    /// Its id.
    pub id: SlotId,
    /// Number, unique on the node.
    pub ordinal: i64,
    /// Number of its NVLink island on the node.
    pub island: i64,
    /// Number of its NUMA node.
    pub numa: i64,
}

impl FreeSlot {
    /// Returns its island and NUMA node together: slots of one pocket differ only in their ordinals.
    pub(super) fn pocket(&self) -> (i64, i64) {
        (self.island, self.numa)
    }
}

/// Returns the best `gpus` of these slots by the documented order, sorted by ordinal; `None` when there are too few.
///
/// Not every set of slots needs to be tried: of all sets that touch exactly some given pockets, none is better than the
/// lowest ordinals of those pockets together, which touch no other pocket. So it is enough to try unions of pockets, and to
/// try wider areas only when no narrower one is large enough. Machines usually have one to four pockets.
pub fn choose_slots(free: &[FreeSlot], gpus: u8) -> Option<Vec<SlotId>> {
    let gpus = usize::from(gpus);
    if gpus == 0 {
        return Some(Vec::new());
    }
    let mut free = free.to_vec();
    free.sort_unstable_by_key(|slot| (slot.ordinal, slot.id));
    let within: [fn(&FreeSlot) -> Place; 4] = [
        |slot| (Some(slot.island), Some(slot.numa)),
        |slot| (Some(slot.island), None),
        |slot| (None, Some(slot.numa)),
        |_| (None, None),
    ];
    within.into_iter().find_map(|place| {
        let mut places = BTreeMap::<Place, Vec<FreeSlot>>::new();
        for slot in &free {
            places.entry(place(slot)).or_default().push(*slot);
        }
        let large_enough = places.values().filter(|slots| slots.len() >= gpus);
        let best = large_enough.flat_map(|slots| sets(slots, gpus)).min_by_key(|set| waste(&free, set))?;
        Some(best.iter().map(|slot| slot.id).collect())
    })
}

/// Locality that the slots of a set must share: an island, a NUMA node, both or neither.
type Place = (Option<i64>, Option<i64>);

/// An area with more pockets than this is tried only as a whole, so that no unusual machine can keep the planner busy: at
/// most 65,535 unions. A node of up to sixteen slots cannot have more, so there the choice is exact.
const MOST_POCKETS: usize = 16;

/// Returns the first `gpus` slots of every large enough union of the pockets of one area; `slots` are sorted by ordinal.
fn sets(slots: &[FreeSlot], gpus: usize) -> impl Iterator<Item = Vec<FreeSlot>> {
    let pockets: BTreeSet<_> = slots.iter().map(FreeSlot::pocket).collect();
    let count = if pockets.len() > MOST_POCKETS { 1 } else { pockets.len() };
    let pocket = |slot: &FreeSlot| pockets.range(..slot.pocket()).count().min(count - 1);
    let bits: Vec<u32> = slots.iter().map(|slot| 1 << pocket(slot)).collect();
    // A union of more pockets than requested slots leaves one pocket unused, and is also tried without it.
    let unions = (1u32..1 << count).filter(move |union| union.count_ones() as usize <= gpus);
    unions.filter_map(move |union| {
        let inside = |(_, bit): &(&FreeSlot, &u32)| *bit & union != 0;
        let enough = slots.iter().zip(&bits).filter(inside).count() >= gpus;
        enough.then(|| slots.iter().zip(&bits).filter(inside).take(gpus).map(|(slot, _)| *slot).collect())
    })
}

/// Returns the last three keys of the documented order; the first two are decided by the area of the set.
fn waste(free: &[FreeSlot], set: &[FreeSlot]) -> (usize, usize, Vec<i64>) {
    let touched = |alike: fn(&FreeSlot, &FreeSlot) -> bool| {
        free.iter().filter(|slot| set.iter().any(|taken| alike(slot, taken))).count()
    };
    // The compared sets have equal size, so the touched slots sort them like the slots left over.
    let islands = touched(|a, b| a.island == b.island);
    let numas = touched(|a, b| a.numa == b.numa);
    (islands, numas, set.iter().map(|slot| slot.ordinal).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns slots with ordinals from 0, each with an island and a NUMA node.
    pub(in crate::placement) fn slots(places: &[(i64, i64)]) -> Vec<FreeSlot> {
        let slot = |(ordinal, (island, numa)): (i64, &(i64, i64))| FreeSlot {
            id: format!("slt_{ordinal:026}").parse().unwrap(),
            ordinal,
            island: *island,
            numa: *numa,
        };
        (0..).zip(places).map(slot).collect()
    }

    /// Returns the ordinals of the chosen slots.
    fn chosen(places: &[(i64, i64)], gpus: u8) -> Option<Vec<i64>> {
        let free = slots(places);
        let ordinal = |id| free.iter().find(|slot| slot.id == id).unwrap().ordinal;
        Some(choose_slots(&free, gpus)?.into_iter().map(ordinal).collect())
    }

    #[test]
    fn a_small_island_is_used_up_before_a_large_one_is_broken() {
        let places = [(0, 0), (0, 0), (0, 0), (0, 0), (1, 1), (1, 1)];
        assert_eq!(chosen(&places, 2), Some(vec![4, 5]));
        assert_eq!(chosen(&places, 3), Some(vec![0, 1, 2]));
    }

    #[test]
    fn one_island_across_numa_nodes_is_better_than_one_numa_node_across_islands() {
        assert_eq!(chosen(&[(0, 0), (1, 0), (1, 1)], 2), Some(vec![1, 2]));
        assert_eq!(chosen(&[(0, 0), (1, 1), (2, 1)], 2), Some(vec![1, 2]));
    }

    #[test]
    fn selection_across_islands_touches_as_few_as_possible() {
        // Every pair is an island of its own, but the first shares its NUMA node with the slot at the end.
        let places = [(0, 0), (0, 0), (1, 1), (1, 1), (2, 2), (2, 2), (3, 0)];
        assert_eq!(chosen(&places, 4), Some(vec![2, 3, 4, 5]));
        assert_eq!(chosen(&places, 3), Some(vec![0, 1, 6]));
    }

    #[test]
    fn none_are_chosen_of_none_and_too_few_are_refused() {
        assert_eq!(chosen(&[], 0), Some(vec![]));
        assert_eq!(chosen(&[(0, 0)], 0), Some(vec![]));
        assert_eq!(chosen(&[(0, 0)], 2), None);
    }

    #[test]
    fn sixteen_slots_without_any_link_are_chosen_exactly() {
        let places: Vec<_> = (0..16).map(|island| (island, island % 2)).collect();
        assert_eq!(chosen(&places, 8), Some((0..8).map(|at| at * 2).collect()));
        assert_eq!(chosen(&places, 9), Some((0..9).collect()));
    }

    #[test]
    fn a_machine_with_more_cells_than_are_tried_still_gives_what_it_has() {
        let places: Vec<_> = (0..40).map(|island| (island, island)).collect();
        assert_eq!(chosen(&places, 20), Some((0..20).collect()));
    }
}
