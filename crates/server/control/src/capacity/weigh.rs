//! Evaluation of a capacity query: whether it fits, why not, and the nearest that would. Pure, over the store's counts.
//!
//! The store counts nodes by kind (`Fit`) instead of one by one, so that an answer costs one statement for any number of
//! nodes. The kind alone determines the available GPUs; the store has compared the other resources for the queried need.

use muster_api::capacity::{AllocationShape, CapacityByGpus, CapacityReason, QuotaLeft};
use muster_db::Quota;
use muster_model::node::Capacity;
use muster_model::placement::{Ask, Resource, Room, Shortage, Strategy, ask_for, cost, shortage};

/// A capacity query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) shape: AllocationShape,
    pub(super) need: Capacity,
}

impl Question {
    fn ask(&self) -> Ask {
        ask_for(&self.need, self.shape == AllocationShape::Baremetal, Strategy::Pack)
    }

    /// Reports whether a kind of node could be allocated in this shape at all, for any number of GPUs.
    fn admits(&self, room: &Room) -> bool {
        cost(room.fit, &Ask { gpus: 0, ..self.ask() }).is_some()
    }
}

/// Returns the number of nodes that could take it now.
pub(super) fn nodes(question: &Question, rooms: &[Room]) -> i64 {
    let ask = question.ask();
    rooms.iter().filter(|room| cost(room.fit, &ask).is_some()).map(|room| room.nodes).sum()
}

/// Returns the largest amount of each resource that one node could give in this shape.
pub(super) fn largest(question: &Question, rooms: &[Room]) -> Capacity {
    rooms.iter().filter(|room| question.admits(room)).fold(Capacity::default(), |largest, room| Capacity {
        gpus: largest.gpus.max(room.most.gpus),
        cpus: largest.cpus.max(room.most.cpus),
        memory_mb: largest.memory_mb.max(room.most.memory_mb),
        disk_mb: largest.disk_mb.max(room.most.disk_mb),
    })
}

/// Returns how many nodes could give one GPU, two, and so on, together with the other resources of the query.
pub(super) fn by_gpus(question: &Question, rooms: &[Room]) -> Vec<CapacityByGpus> {
    let rooms: Vec<&Room> = rooms.iter().filter(|room| question.admits(room) && room.nodes > 0).collect();
    let most = rooms.iter().map(|room| room.fit.gpus).max().unwrap_or(0);
    let count = |fits: &dyn Fn(&Room) -> bool| {
        rooms.iter().filter(|room| fits(room)).map(|room| room.nodes).sum::<i64>()
    };
    (1..=most)
        .map(|gpus| CapacityByGpus {
            gpus: i64::from(gpus),
            nodes: count(&|room| room.fit.gpus >= gpus),
            in_one_island: count(&|room| room.fit.island >= gpus),
        })
        .collect()
}

/// Returns the remaining quota. A project above a lowered limit has zero left, not a negative amount.
pub(super) fn left(quota: &Quota) -> QuotaLeft {
    let left = |most: Option<i64>, used: i64| most.map(|most| (most - used).max(0));
    QuotaLeft {
        allocations: left(quota.max_allocations, quota.used_allocations),
        gpus: left(quota.max_gpus, quota.used.gpus),
        cpus: left(quota.max_cpus, quota.used.cpus),
        memory_mb: left(quota.max_memory_mb, quota.used.memory_mb),
        disk_mb: left(quota.max_disk_mb, quota.used.disk_mb),
    }
}

/// Returns why it does not fit now, as a code and a message; `None` if it does.
pub(super) fn obstacle(
    question: &Question,
    rooms: &[Room],
    quota: &Quota,
) -> Option<(CapacityReason, String)> {
    if let Some(excess) = quota.excess(1, &question.need) {
        return Some((CapacityReason::Quota, excess));
    }
    let short = shortage(&question.need, question.shape == AllocationShape::Baremetal, rooms)?;
    let reason = match short {
        Shortage::NoNode => CapacityReason::NoNode,
        Shortage::NoWholeNode => CapacityReason::NoWholeNode,
        Shortage::Apart { .. } => CapacityReason::Apart,
        Shortage::Short { resource: Resource::Gpus, .. } => CapacityReason::Gpus,
        Shortage::Short { resource: Resource::Cpus, .. } => CapacityReason::Cpus,
        Shortage::Short { resource: Resource::MemoryMb, .. } => CapacityReason::MemoryMb,
        Shortage::Short { resource: Resource::DiskMb, .. } => CapacityReason::DiskMb,
    };
    Some((reason, short.to_string()))
}

/// Returns the remaining quota of a resource; `None` means unlimited.
fn left_of(quota: &QuotaLeft, resource: Resource) -> Option<i64> {
    match resource {
        Resource::Gpus => quota.gpus,
        Resource::Cpus => quota.cpus,
        Resource::MemoryMb => quota.memory_mb,
        Resource::DiskMb => quota.disk_mb,
    }
}

/// Reduces the query to the remaining quota and, if `rooms` are given, to the largest free node. Returns `None` where
/// nothing would remain of a requested resource.
pub(super) fn least(question: &Question, quota: &QuotaLeft, rooms: Option<&[Room]>) -> Option<Question> {
    if quota.allocations == Some(0) {
        return None;
    }
    let mut cut = *question;
    for resource in Resource::ALL {
        let asked = resource.amount(&question.need);
        let most = rooms.map(|rooms| resource.amount(&largest(question, rooms)));
        let least = asked.min(left_of(quota, resource).unwrap_or(asked)).min(most.unwrap_or(asked));
        if least == 0 && asked > 0 {
            return None;
        }
        *resource.amount_mut(&mut cut.need) = least;
    }
    Some(cut)
}

/// Returns the closest query that fits: itself, one with less of one resource, or a slice instead of a whole node. Of
/// several it picks the smallest relative reduction. `rooms` were counted for its need.
pub(super) fn nearest(question: &Question, rooms: &[Room]) -> Option<Question> {
    if nodes(question, rooms) > 0 {
        return Some(*question);
    }
    let ask = question.ask();
    let fewer_gpus = rooms.iter().filter(|room| question.admits(room) && room.nodes > 0);
    let fewer_gpus = fewer_gpus.map(|room| room.most.gpus).max().unwrap_or(0);
    let with_the_gpus = || rooms.iter().filter(|room| cost(room.fit, &ask).is_some());
    let beside = Resource::COUNTED.into_iter().map(|resource| {
        (resource, with_the_gpus().map(|room| resource.amount(&room.beside)).max().unwrap_or(0))
    });
    let with_less =
        [(Resource::Gpus, fewer_gpus)].into_iter().chain(beside).filter_map(|(resource, given)| {
            let asked = resource.amount(&question.need);
            let given_up = asked.checked_sub(given).filter(|less| *less > 0 && given > 0)?;
            let mut other = *question;
            *resource.amount_mut(&mut other.need) = given;
            Some((given_up.saturating_mul(1000) / asked, other))
        });
    with_less.min_by_key(|(part, _)| *part).map(|(_, other)| other).or_else(|| {
        let slice = Question { shape: AllocationShape::GpuSlice, ..*question };
        (nodes(&slice, rooms) > 0).then_some(slice)
    })
}

/// Describes the difference between two queries: `4 GPUs instead of 8`.
pub(super) fn change(asked: &Question, other: &Question) -> String {
    let mut changes: Vec<String> = Resource::ALL
        .into_iter()
        .map(|resource| (resource, resource.amount(&asked.need), resource.amount(&other.need)))
        .filter(|(_, asked, other)| asked != other)
        .map(|(resource, asked, other)| format!("{} instead of {asked}", resource.words(other)))
        .collect();
    if asked.shape != other.shape {
        changes.push("a slice of a node instead of a whole one".to_owned());
    }
    changes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::placement::{Fit, FreeNode, rooms_of};

    /// A node: whether it is whole, its free GPUs, the most of them in one island, and CPUs, memory and disk.
    type Node = (bool, u8, u8, [i64; 3]);

    /// Returns the store's counts for a need.
    fn rooms(fleet: &[Node], need: &Capacity) -> Vec<Room> {
        let node = |(whole, gpus, island, [cpus, memory_mb, disk_mb]): &Node| {
            let free =
                Capacity { gpus: i64::from(*gpus), cpus: *cpus, memory_mb: *memory_mb, disk_mb: *disk_mb };
            let fit = Fit { whole: *whole, gpus: *gpus, pocket: *island, island: *island, numa: *island };
            FreeNode { fit, free, total: free }
        };
        rooms_of(&fleet.iter().map(node).collect::<Vec<_>>(), need)
    }

    fn slice(gpus: i64, cpus: i64, memory_mb: i64) -> Question {
        let need = Capacity { gpus, cpus, memory_mb, disk_mb: 0 };
        Question { shape: AllocationShape::GpuSlice, need }
    }

    const NO_LIMIT: QuotaLeft =
        QuotaLeft { allocations: None, gpus: None, cpus: None, memory_mb: None, disk_mb: None };

    /// An empty node, a half-used one, and one with many CPUs and a single GPU.
    const FLEET: [Node; 3] =
        [(true, 8, 8, [64, 512, 100]), (false, 4, 2, [64, 256, 100]), (false, 1, 1, [256, 64, 100])];

    fn why(question: &Question, fleet: &[Node], quota: &Quota) -> Option<CapacityReason> {
        obstacle(question, &rooms(fleet, &question.need), quota).map(|(reason, _)| reason)
    }

    fn would_fit(question: &Question, fleet: &[Node]) -> Option<String> {
        nearest(question, &rooms(fleet, &question.need)).map(|other| change(question, &other))
    }

    #[test]
    fn nodes_are_counted_by_gpus_and_by_island() {
        let question = slice(2, 32, 0);
        let rooms = rooms(&FLEET, &question.need);
        assert_eq!(nodes(&question, &rooms), 2);
        let counted = by_gpus(&question, &rooms);
        let line = |gpus: usize| (counted[gpus - 1].nodes, counted[gpus - 1].in_one_island);
        assert_eq!((line(1), line(2), line(3), line(8)), ((3, 3), (2, 2), (2, 1), (1, 1)));
        assert_eq!(counted.len(), 8);
        let largest = largest(&question, &rooms);
        assert_eq!((largest.gpus, largest.cpus, largest.memory_mb), (8, 256, 512));
    }

    #[test]
    fn other_resources_limit_capacity_for_each_number_of_gpus() {
        let question = slice(1, 128, 0);
        let counted = by_gpus(&question, &rooms(&FLEET, &question.need));
        assert_eq!(counted, [CapacityByGpus { gpus: 1, nodes: 1, in_one_island: 1 }]);
    }

    #[test]
    fn each_obstacle_has_its_reason() {
        assert_eq!(why(&slice(8, 64, 512), &FLEET, &Quota::default()), None);
        assert_eq!(why(&slice(1, 0, 0), &[], &Quota::default()), Some(CapacityReason::NoNode));
        assert_eq!(why(&slice(9, 0, 0), &FLEET, &Quota::default()), Some(CapacityReason::Gpus));
        assert_eq!(why(&slice(2, 65, 0), &FLEET, &Quota::default()), Some(CapacityReason::Cpus));
        assert_eq!(why(&slice(0, 1, 513), &FLEET, &Quota::default()), Some(CapacityReason::MemoryMb));
        assert_eq!(why(&slice(1, 200, 65), &FLEET, &Quota::default()), Some(CapacityReason::Apart));
        let whole = Question { shape: AllocationShape::Baremetal, ..slice(1, 0, 0) };
        assert_eq!(why(&whole, &FLEET, &Quota::default()), None);
        assert_eq!(why(&whole, &FLEET[1..], &Quota::default()), Some(CapacityReason::NoWholeNode));
        let quota = Quota { max_gpus: Some(2), ..Quota::default() };
        assert_eq!(why(&slice(2, 0, 0), &FLEET, &quota), None);
        assert_eq!(why(&slice(3, 0, 0), &FLEET, &quota), Some(CapacityReason::Quota));
        let quota = Quota { max_allocations: Some(0), ..Quota::default() };
        assert_eq!(why(&slice(0, 0, 0), &FLEET, &quota), Some(CapacityReason::Quota));
    }

    #[test]
    fn the_smallest_change_is_the_one_that_gives_up_the_smallest_part() {
        assert_eq!(would_fit(&slice(8, 0, 0), &FLEET[1..]).as_deref(), Some("4 GPUs instead of 8"));
        // A node with one GPU has 65 CPUs; one with eight GPUs has 64.
        assert_eq!(would_fit(&slice(8, 65, 0), &FLEET).as_deref(), Some("64 CPUs instead of 65"));
        assert_eq!(would_fit(&slice(2, 200, 0), &FLEET).as_deref(), Some("1 GPU instead of 2"));
        // Less of one resource is not enough: no node has both the memory and the CPUs.
        assert_eq!(would_fit(&slice(9, 300, 600), &FLEET), None);
        let whole = Question { shape: AllocationShape::Baremetal, ..slice(4, 0, 0) };
        let change = would_fit(&whole, &FLEET[1..]);
        assert_eq!(change.as_deref(), Some("a slice of a node instead of a whole one"));
    }

    #[test]
    fn a_question_is_cut_down_to_the_quota_and_to_the_largest_node() {
        let quota = QuotaLeft { gpus: Some(6), cpus: Some(48), ..NO_LIMIT };
        let question = slice(9, 300, 600);
        let within = least(&question, &quota, None).unwrap();
        assert_eq!((within.need.gpus, within.need.cpus, within.need.memory_mb), (6, 48, 600));
        let within = least(&question, &quota, Some(&rooms(&FLEET, &question.need))).unwrap();
        assert_eq!((within.need.gpus, within.need.cpus, within.need.memory_mb), (6, 48, 512));
        assert_eq!(
            change(&question, &within),
            "6 GPUs instead of 9, 48 CPUs instead of 300, 512 MiB of memory instead of 600"
        );
        assert_eq!(least(&question, &QuotaLeft { gpus: Some(0), ..NO_LIMIT }, None), None);
        assert_eq!(least(&question, &QuotaLeft { allocations: Some(0), ..NO_LIMIT }, None), None);
    }

    #[test]
    fn a_quota_above_its_limit_leaves_nothing_and_no_limit_leaves_all() {
        let used = Capacity { gpus: 8, ..Capacity::default() };
        let quota = Quota { max_gpus: Some(4), max_cpus: Some(4), used, ..Quota::default() };
        assert_eq!(left(&quota), QuotaLeft { gpus: Some(0), cpus: Some(4), ..NO_LIMIT });
    }

    mod property {
        use super::*;
        use proptest::prelude::*;
        use proptest::strategy::Strategy as _;

        fn fleets() -> impl proptest::strategy::Strategy<Value = Vec<Node>> {
            let node = (any::<bool>(), 0u8..5, 0u8..5, [0i64..6, 0i64..6, 0i64..6])
                .prop_map(|(whole, gpus, island, has)| (whole, gpus, island.min(gpus), has));
            proptest::collection::vec(node, 0..6)
        }

        fn questions() -> impl proptest::strategy::Strategy<Value = Question> {
            (any::<bool>(), 0i64..8, [0i64..8, 0i64..8, 0i64..8]).prop_map(|(whole, gpus, has)| Question {
                shape: if whole { AllocationShape::Baremetal } else { AllocationShape::GpuSlice },
                need: Capacity { gpus, cpus: has[0], memory_mb: has[1], disk_mb: has[2] },
            })
        }

        /// Checks node by node, without kinds.
        fn brute_force(question: &Question, fleet: &[Node]) -> i64 {
            let need = [question.need.cpus, question.need.memory_mb, question.need.disk_mb];
            let whole = question.shape == AllocationShape::Baremetal;
            let fits = |(w, gpus, _, has): &&Node| {
                (*w || !whole)
                    && i64::from(*gpus) >= question.need.gpus
                    && (0..3).all(|at| has[at] >= need[at])
            };
            fleet.iter().filter(fits).count() as i64
        }

        proptest! {
            #[test]
            fn counting_by_kind_equals_counting_node_by_node(fleet in fleets(), question in questions()) {
                let rooms = rooms(&fleet, &question.need);
                prop_assert_eq!(nodes(&question, &rooms), brute_force(&question, &fleet));
                for line in by_gpus(&question, &rooms) {
                    let need = Capacity { gpus: line.gpus, ..question.need };
                    prop_assert_eq!(line.nodes, brute_force(&Question { need, ..question }, &fleet));
                }
            }

            #[test]
            fn nearest_alternative_fits_and_never_exceeds_the_request(fleet in fleets(), question in questions()) {
                if let Some(other) = nearest(&question, &rooms(&fleet, &question.need)) {
                    prop_assert!(brute_force(&other, &fleet) > 0);
                    prop_assert!(other.need.within(&question.need));
                }
            }
        }
    }
}
