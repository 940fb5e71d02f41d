//! Determines which resource is short when no node can take a request: one rule for `capacity`, dry runs and failures.

use std::fmt;

use super::{Ask, Fit, Resource, Strategy, cost};
use crate::node::Capacity;

/// Free resources of the nodes of one fit besides GPUs, counted for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The fit.
    pub fit: Fit,
    /// Number of them with enough CPUs, memory and disk.
    pub nodes: i64,
    /// Maximum free amount of each resource on one of them.
    pub most: Capacity,
    /// Maximum free amount of each resource on one of them with enough of the others.
    pub beside: Capacity,
}

/// Why no node can take a request now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// No node accepts allocations.
    NoNode,
    /// An exclusive request, and something is held of every node.
    NoWholeNode,
    /// No node has enough of one resource free.
    Short {
        /// The resource.
        resource: Resource,
        /// Amount that the request needs.
        needs: i64,
        /// Maximum free amount on one node; for resources other than GPUs, among the nodes with enough GPUs.
        most: i64,
    },
    /// Each resource is free on some node, but not all on one.
    Apart {
        /// The resource with the smallest missing part.
        resource: Resource,
        /// Amount that the request needs.
        needs: i64,
        /// Maximum free amount on one node with enough of the others.
        most: i64,
    },
}

impl fmt::Display for Shortage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Shortage::NoNode => write!(to, "no node takes allocations now"),
            Shortage::NoWholeNode => write!(to, "no node is free as a whole"),
            Shortage::Short { resource, needs, most } => {
                write!(to, "needs {}; most free on one node: {most}", resource.words(needs))
            }
            Shortage::Apart { resource, needs, most } => write!(
                to,
                "needs {}; most free on one node with the rest of the request: {most}",
                resource.words(needs)
            ),
        }
    }
}

/// Builds a request to the planner. More GPUs than a fit can count exceed every node.
pub fn ask_for(need: &Capacity, exclusive: bool, strategy: Strategy) -> Ask {
    Ask { gpus: u8::try_from(need.gpus).unwrap_or(u8::MAX), exclusive, strategy }
}

/// Returns the resource that is short; `None` when a node can take the request. `rooms` were counted for this request.
pub fn shortage(need: &Capacity, exclusive: bool, rooms: &[Room]) -> Option<Shortage> {
    let ask = ask_for(need, exclusive, Strategy::Pack);
    let with_gpus = || rooms.iter().filter(|room| cost(room.fit, &ask).is_some());
    if with_gpus().any(|room| room.nodes > 0) {
        return None;
    }
    let admitted = || rooms.iter().filter(|room| cost(room.fit, &Ask { gpus: 0, ..ask }).is_some());
    if rooms.is_empty() {
        return Some(Shortage::NoNode);
    }
    let Some(most) = admitted().map(|room| i64::from(room.fit.gpus)).max() else {
        return Some(Shortage::NoWholeNode);
    };
    if most < need.gpus {
        return Some(Shortage::Short { resource: Resource::Gpus, needs: need.gpus, most });
    }
    let short = |resource: Resource| {
        let needs = resource.amount(need);
        let most = with_gpus().map(|room| resource.amount(&room.most)).max().unwrap_or(0);
        (most < needs).then_some(Shortage::Short { resource, needs, most })
    };
    let apart = || {
        let missing = |resource: Resource| {
            let needs = resource.amount(need);
            let most = with_gpus().map(|room| resource.amount(&room.beside)).max().unwrap_or(0);
            let part = needs.checked_sub(most).filter(|less| *less > 0)?.saturating_mul(1000) / needs;
            Some((part, Shortage::Apart { resource, needs, most }))
        };
        Resource::COUNTED.into_iter().filter_map(missing).min_by_key(|(part, _)| *part).map(|(_, why)| why)
    };
    Some(Resource::COUNTED.into_iter().find_map(short).or_else(apart).unwrap_or(Shortage::NoNode))
}

/// Free resources of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeNode {
    /// Its fit.
    pub fit: Fit,
    /// Free capacity.
    pub free: Capacity,
    /// Total capacity, without held GPUs.
    pub total: Capacity,
}

/// Takes one allocation from the best of these nodes, by the documented cost order as far as it does not depend on slots;
/// `false` when none can hold it. For plans only: nothing is claimed.
pub fn take_from(nodes: &mut [FreeNode], need: &Capacity, exclusive: bool) -> bool {
    let ask = ask_for(need, exclusive, Strategy::Pack);
    let fits = |node: &FreeNode| {
        Resource::COUNTED.into_iter().all(|resource| resource.amount(&node.free) >= resource.amount(need))
    };
    let best = nodes
        .iter_mut()
        .filter(|node| fits(node))
        .filter_map(|node| Some((cost(node.fit, &ask)?, node)))
        .min_by_key(|(cost, _)| *cost);
    let Some((_, node)) = best else { return false };
    if exclusive {
        node.free = Capacity::default();
        node.fit = Fit { whole: false, gpus: 0, pocket: 0, island: 0, numa: 0 };
        return true;
    }
    for resource in Resource::ALL {
        *resource.amount_mut(&mut node.free) -= resource.amount(need);
    }
    let gpus = node.fit.gpus - ask.gpus;
    let at_most = |count: u8| count.min(gpus);
    node.fit = Fit {
        whole: false,
        gpus,
        pocket: at_most(node.fit.pocket),
        island: at_most(node.fit.island),
        numa: at_most(node.fit.numa),
    };
    true
}

/// Counts the rooms of these nodes for a request, as the store does.
pub fn rooms_of(nodes: &[FreeNode], need: &Capacity) -> Vec<Room> {
    let enough = |node: &FreeNode, but: Option<Resource>| {
        Resource::COUNTED
            .into_iter()
            .all(|other| Some(other) == but || other.amount(&node.free) >= other.amount(need))
    };
    let mut kinds: Vec<Fit> = nodes.iter().map(|node| node.fit).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let room = |fit: Fit| {
        let alike = || nodes.iter().filter(move |node| node.fit == fit);
        let gpus = i64::from(fit.gpus);
        let (mut most, mut beside) =
            (Capacity { gpus, ..Capacity::default() }, Capacity { gpus, ..Capacity::default() });
        for resource in Resource::COUNTED {
            let of = |node: &FreeNode| resource.amount(&node.free);
            *resource.amount_mut(&mut most) = alike().map(of).max().unwrap_or(0);
            let with_the_rest = alike().filter(|node| enough(node, Some(resource))).map(of);
            *resource.amount_mut(&mut beside) = with_the_rest.max().unwrap_or(0);
        }
        let count = alike().filter(|node| enough(node, None)).count();
        Room { fit, nodes: i64::try_from(count).unwrap_or(i64::MAX), most, beside }
    };
    kinds.into_iter().map(room).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(whole: bool, gpus: u8, [cpus, memory_mb, disk_mb]: [i64; 3]) -> FreeNode {
        let free = Capacity { gpus: i64::from(gpus), cpus, memory_mb, disk_mb };
        let fit = Fit { whole, gpus, pocket: gpus, island: gpus, numa: gpus };
        FreeNode { fit, free, total: free }
    }

    fn need(gpus: i64, cpus: i64, memory_mb: i64, disk_mb: i64) -> Capacity {
        Capacity { gpus, cpus, memory_mb, disk_mb }
    }

    fn words(nodes: &[FreeNode], need: &Capacity, exclusive: bool) -> Option<String> {
        shortage(need, exclusive, &rooms_of(nodes, need)).map(|why| why.to_string())
    }

    #[test]
    fn the_resource_that_is_short_is_named_with_the_most_there_is() {
        let fleet = [node(false, 4, [0, 512, 100]), node(false, 0, [8, 64, 100])];
        let short = |gpus, cpus, memory, disk| words(&fleet, &need(gpus, cpus, memory, disk), false);
        assert_eq!(short(4, 0, 512, 100), None);
        assert_eq!(short(1, 1, 1, 1).as_deref(), Some("needs 1 CPU; most free on one node: 0"));
        assert_eq!(short(8, 1, 1, 1).as_deref(), Some("needs 8 GPUs; most free on one node: 4"));
        assert_eq!(short(0, 9, 1, 1).as_deref(), Some("needs 9 CPUs; most free on one node: 8"));
        assert_eq!(
            short(0, 1, 600, 1).as_deref(),
            Some("needs 600 MiB of memory; most free on one node: 512")
        );
        assert_eq!(short(0, 1, 1, 101).as_deref(), Some("needs 101 MiB of disk; most free on one node: 100"));
        let apart = "needs 100 MiB of memory; most free on one node with the rest of the request: 64";
        assert_eq!(short(0, 8, 100, 1).as_deref(), Some(apart));
    }

    #[test]
    fn whole_nodes_and_empty_fleets_have_words_of_their_own() {
        let held = [node(false, 8, [8, 8, 8])];
        assert_eq!(words(&held, &need(1, 1, 1, 1), true).as_deref(), Some("no node is free as a whole"));
        assert_eq!(words(&[], &need(1, 1, 1, 1), false).as_deref(), Some("no node takes allocations now"));
        assert_eq!(words(&[node(true, 8, [8, 8, 8])], &need(1, 1, 1, 1), true), None);
    }

    #[test]
    fn a_plan_of_many_takes_no_more_than_there_is() {
        let mut fleet = vec![node(true, 2, [4, 40, 40]), node(true, 2, [1, 40, 40])];
        let each = need(1, 1, 10, 10);
        let taken = (0..10).take_while(|_| take_from(&mut fleet, &each, false)).count();
        assert_eq!(taken, 3, "two on the first node, and one where there is one CPU");
        assert!(take_from(&mut fleet, &need(0, 1, 1, 1), false));
        assert!(!take_from(&mut fleet, &need(0, 1, 1, 1), true), "something is held of each node");
    }

    proptest! {
        #[test]
        fn a_shortage_is_named_exactly_where_nothing_can_be_taken(
            nodes in prop::collection::vec((any::<bool>(), 0u8..4, [0i64..5, 0i64..5, 0i64..5]), 0..6),
            gpus in 0i64..5, rest in [0i64..6, 0i64..6, 0i64..6], exclusive: bool,
        ) {
            let mut nodes: Vec<FreeNode> =
                nodes.into_iter().map(|(whole, gpus, rest)| node(whole, gpus, rest)).collect();
            let need = need(gpus, rest[0], rest[1], rest[2]);
            let why = shortage(&need, exclusive, &rooms_of(&nodes, &need));
            if let Some(Shortage::Short { needs, most, .. } | Shortage::Apart { needs, most, .. }) = why {
                prop_assert!(most < needs);
            }
            prop_assert_eq!(why.is_none(), take_from(&mut nodes, &need, exclusive), "{:?}", why);
        }
    }
}
