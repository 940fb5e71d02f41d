//! The free capacity of a node, as a small value that many nodes share.

use super::FreeSlot;

/// The free slots of a node in a form that the store can index: nodes with equal fits differ to the planner only in their
/// ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fit {
    /// Nothing of the node is held, so that it can be taken exclusively.
    pub whole: bool,
    /// Its free slots.
    pub gpus: u8,
    /// The most free slots that share both one island and one NUMA node.
    pub pocket: u8,
    /// The most free slots in one island.
    pub island: u8,
    /// The most free slots in one NUMA node.
    pub numa: u8,
}

impl Fit {
    /// Returns the fit of a node with these free slots. The caller passes whether it is whole: cpus or memory alone may be
    /// held.
    pub fn of(free: &[FreeSlot], whole: bool) -> Self {
        let most = |alike: fn(&FreeSlot, &FreeSlot) -> bool| {
            let count = |slot| free.iter().filter(|other| alike(slot, other)).count();
            narrow(free.iter().map(count).max().unwrap_or(0))
        };
        Self {
            whole,
            gpus: narrow(free.len()),
            pocket: most(|a, b| a.pocket() == b.pocket()),
            island: most(|a, b| a.island == b.island),
            numa: most(|a, b| a.numa == b.numa),
        }
    }

    /// Returns the fit as one number, never negative and unique for each fit; numbers sort as fits do.
    pub fn packed(self) -> i64 {
        [self.gpus, self.pocket, self.island, self.numa]
            .into_iter()
            .fold(i64::from(self.whole), |packed, count| (packed << 8) | i64::from(count))
    }

    /// Unpacks a fit. Bits that `packed` never sets are ignored.
    pub fn unpacked(packed: i64) -> Self {
        let [.., whole, gpus, pocket, island, numa] = packed.to_be_bytes();
        Self { whole: whole & 1 == 1, gpus, pocket, island, numa }
    }
}

/// Saturates a count: a fit may understate a node's slots, never overstate them.
fn narrow(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::placement::slots::tests::slots;

    fn fits() -> impl proptest::strategy::Strategy<Value = Fit> {
        any::<(bool, u8, u8, u8, u8)>().prop_map(|(whole, gpus, pocket, island, numa)| Fit {
            whole,
            gpus,
            pocket,
            island,
            numa,
        })
    }

    proptest! {
        #[test]
        fn packed_fit_round_trips_and_preserves_order(a in fits(), b in fits()) {
            prop_assert_eq!(Fit::unpacked(a.packed()), a);
            prop_assert!(a.packed() >= 0);
            prop_assert_eq!(a.cmp(&b), a.packed().cmp(&b.packed()));
        }

        #[test]
        fn any_number_unpacks_without_a_fault(packed: i64) {
            prop_assert_eq!(Fit::unpacked(Fit::unpacked(packed).packed()), Fit::unpacked(packed));
        }

        #[test]
        fn a_fit_counts_what_a_tally_counts(
            places in proptest::collection::vec((0i64..4, 0i64..3), 0..16),
            whole: bool,
        ) {
            let (mut pockets, mut islands, mut numas) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
            for (island, numa) in &places {
                *pockets.entry((island, numa)).or_insert(0u8) += 1;
                *islands.entry(island).or_insert(0u8) += 1;
                *numas.entry(numa).or_insert(0u8) += 1;
            }
            let fit = Fit::of(&slots(&places), whole);
            prop_assert_eq!(fit.whole, whole);
            prop_assert_eq!(usize::from(fit.gpus), places.len());
            prop_assert_eq!(fit.pocket, pockets.into_values().max().unwrap_or(0));
            prop_assert_eq!(fit.island, islands.into_values().max().unwrap_or(0));
            prop_assert_eq!(fit.numa, numas.into_values().max().unwrap_or(0));
        }
    }

    #[test]
    fn a_node_with_more_slots_than_a_fit_can_count_has_the_largest_count() {
        let fit = Fit::of(&slots(&[(0, 0); 300]), true);
        assert_eq!(fit, Fit { whole: true, gpus: 255, pocket: 255, island: 255, numa: 255 });
    }
}
