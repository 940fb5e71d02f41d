//! Which slots of a node are taken.

use std::collections::{BTreeMap, BTreeSet};

use muster_ids::SlotId;

/// One free (approved, unclaimed) slot, as far as placement cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FreeSlot {
    /// Its id.
    pub id: SlotId,
    /// Its number, unique on the node.
    pub ordinal: i64,
    /// The number of its NVLink island on the node.
    pub island: i64,
    /// The number of its NUMA node.
    pub numa: i64,
}

impl FreeSlot {
    /// Its island and NUMA node together: slots of one pocket differ in nothing but their ordinals.
    pub(super) fn pocket(&self) -> (i64, i64) {
        (self.island, self.numa)
    }
}

/// The best `gpus` of these slots by the written order, in order of their ordinals; `None` when there are too few.
///
/// Not every set of slots needs a look: of all sets that touch exactly some given pockets, none is better than the lowest
/// ordinals of those pockets together, which touch no other pocket. So it is enough to try unions of pockets, and to try wider
/// places only when no narrower one is large enough. Machines have one to four pockets as a rule.
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

/// What the slots of a set must share: an island, a NUMA node, both or neither.
type Place = (Option<i64>, Option<i64>);

/// A place with more pockets than this is tried as a whole alone, so that no machine, however odd, can keep the planner
/// busy: at most 65,535 unions. A node of up to sixteen slots cannot have more, so there the choice is exact.
const MOST_POCKETS: usize = 16;

/// The first `gpus` slots of every union of the pockets of one place that has so many; `slots` are in order of ordinals.
fn sets(slots: &[FreeSlot], gpus: usize) -> impl Iterator<Item = Vec<FreeSlot>> {
    let pockets: BTreeSet<_> = slots.iter().map(FreeSlot::pocket).collect();
    let count = if pockets.len() > MOST_POCKETS { 1 } else { pockets.len() };
    let pocket = |slot: &FreeSlot| pockets.range(..slot.pocket()).count().min(count - 1);
    let bits: Vec<u32> = slots.iter().map(|slot| 1 << pocket(slot)).collect();
    // A union of more pockets than slots are wanted has a pocket that nothing is taken from, and is tried without it too.
    let unions = (1u32..1 << count).filter(move |union| union.count_ones() as usize <= gpus);
    unions.filter_map(move |union| {
        let inside = |(_, bit): &(&FreeSlot, &u32)| *bit & union != 0;
        let enough = slots.iter().zip(&bits).filter(inside).count() >= gpus;
        enough.then(|| slots.iter().zip(&bits).filter(inside).take(gpus).map(|(slot, _)| *slot).collect())
    })
}

/// The last three keys of the written order; the first two are decided by the place that the set was found in.
fn waste(free: &[FreeSlot], set: &[FreeSlot]) -> (usize, usize, Vec<i64>) {
    let touched = |alike: fn(&FreeSlot, &FreeSlot) -> bool| {
        free.iter().filter(|slot| set.iter().any(|taken| alike(slot, taken))).count()
    };
    // The sets compared are of one size, so that what is touched sorts them as what is left over does.
    let islands = touched(|a, b| a.island == b.island);
    let numas = touched(|a, b| a.numa == b.numa);
    (islands, numas, set.iter().map(|slot| slot.ordinal).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Slots with ordinals from 0 at these places, each an island and a NUMA node.
    pub(in crate::placement) fn slots(places: &[(i64, i64)]) -> Vec<FreeSlot> {
        let slot = |(ordinal, (island, numa)): (i64, &(i64, i64))| FreeSlot {
            id: format!("slt_{ordinal:026}").parse().unwrap(),
            ordinal,
            island: *island,
            numa: *numa,
        };
        (0..).zip(places).map(slot).collect()
    }

    /// The ordinals of the slots that are chosen.
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
    fn what_must_cross_touches_as_little_as_it_can() {
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
