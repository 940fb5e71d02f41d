//! The cost of a node, and the resulting order.

use super::{Ask, Fit, Strategy};

/// The documented cost order of a node, up to its id: lower is better, and an earlier field outweighs all later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// No island has enough free slots.
    pub(super) crosses_islands: bool,
    /// No NUMA node has enough free slots, within one island where an island has.
    pub(super) crosses_numa: bool,
    /// Number of free GPUs left over; negative where more are better.
    pub(super) leftover: i64,
}

/// Returns the cost of taking `ask` from a node of this fit; `None` when the node cannot hold it.
pub fn cost(fit: Fit, ask: &Ask) -> Option<Cost> {
    if fit.gpus < ask.gpus || (ask.exclusive && !fit.whole) {
        return None;
    }
    let (crosses_islands, crosses_numa) = if fit.pocket >= ask.gpus {
        (false, false)
    } else if fit.island >= ask.gpus {
        (false, true)
    } else {
        (true, fit.numa < ask.gpus)
    };
    let leftover = i64::from(fit.gpus - ask.gpus);
    let leftover = match ask.strategy {
        Strategy::Pack => leftover,
        // A request without GPUs has nothing to spread, and would take cpus and memory from the machines with the most GPUs;
        // an exclusive one would block everything it leaves over.
        Strategy::Spread if ask.gpus == 0 || ask.exclusive => leftover,
        Strategy::Spread => -leftover,
    };
    Some(Cost { crosses_islands, crosses_numa, leftover })
}

/// Returns the fits that can hold `ask`, each once, best first. Fits of equal cost are in an arbitrary but stable order; to
/// find the best *node*, use [`tiers`], because there the id decides.
pub fn rank(fits: &[Fit], ask: &Ask) -> Vec<Fit> {
    tiers(fits, ask).concat()
}

/// Like [`rank`], split where the cost changes: within a tier the node with the lowest id is the best, whichever fit it has.
pub fn tiers(fits: &[Fit], ask: &Ask) -> Vec<Vec<Fit>> {
    let mut costs: Vec<(Cost, Fit)> = fits.iter().filter_map(|fit| Some((cost(*fit, ask)?, *fit))).collect();
    costs.sort_unstable();
    costs.dedup();
    costs.chunk_by(|a, b| a.0 == b.0).map(|tier| tier.iter().map(|(_, fit)| *fit).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACK: Ask = Ask { gpus: 4, exclusive: false, strategy: Strategy::Pack };

    fn fit(gpus: u8, pocket: u8, island: u8, numa: u8) -> Fit {
        Fit { whole: false, gpus, pocket, island, numa }
    }

    #[test]
    fn islands_outweigh_numa_nodes_and_those_outweigh_leftovers() {
        let side_by_side = fit(8, 4, 4, 4);
        let in_one_island = fit(7, 3, 4, 4);
        let in_one_numa_node = fit(6, 3, 3, 4);
        let anywhere = fit(4, 1, 1, 1);
        let best_first = [side_by_side, in_one_island, in_one_numa_node, anywhere];
        let mut given = best_first;
        given.reverse();
        assert_eq!(rank(&given, &PACK), best_first);
    }

    #[test]
    fn packing_prefers_few_leftovers_and_spreading_many() {
        let fits = [fit(8, 8, 8, 8), fit(4, 4, 4, 4), fit(6, 6, 6, 6), fit(4, 4, 4, 4), fit(3, 3, 3, 3)];
        assert_eq!(rank(&fits, &PACK), [fits[1], fits[2], fits[0]]);
        assert_eq!(rank(&fits, &Ask { strategy: Strategy::Spread, ..PACK }), [fits[0], fits[2], fits[1]]);
    }

    #[test]
    fn machines_without_gpus_go_first_when_none_are_asked_for() {
        let fits = [fit(8, 8, 8, 8), fit(0, 0, 0, 0), fit(1, 1, 1, 1)];
        for strategy in Strategy::ALL {
            let ask = Ask { gpus: 0, exclusive: false, strategy };
            assert_eq!(rank(&fits, &ask), [fits[1], fits[2], fits[0]]);
        }
    }

    #[test]
    fn only_whole_nodes_are_taken_exclusively() {
        let held = fit(8, 8, 8, 8);
        let whole = Fit { whole: true, ..held };
        assert_eq!(rank(&[held, whole], &Ask { exclusive: true, ..PACK }), [whole]);
    }

    #[test]
    fn different_fits_of_equal_cost_share_a_tier() {
        let fits = [fit(6, 5, 6, 5), fit(6, 4, 4, 4), fit(7, 4, 4, 4)];
        assert_eq!(tiers(&fits, &PACK), [vec![fits[1], fits[0]], vec![fits[2]]]);
    }
}
