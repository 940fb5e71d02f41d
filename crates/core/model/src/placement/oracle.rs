//! The planner against brute force: the documented order once more, as one flat key over every node and every set of slots.
//!
//! The fleets come from a fixed seed, so that planted faults are tested on the same fleets that the planner passes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use muster_ids::SlotId;
use proptest::prelude::{Just, TestCaseError, any, prop_assert_eq};
use proptest::strategy::Strategy as Generated;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{Ask, Cost, Fit, FreeSlot, Strategy, choose_slots, cost, rank, tiers};

/// Sorts fits into tiers, and chooses slots: the planner's own functions, or faulty ones.
type Sorter = Box<dyn Fn(&[Fit], &Ask) -> Vec<Vec<Fit>>>;
type Chooser = fn(&[FreeSlot], u8) -> Option<Vec<SlotId>>;

const FLEETS: u32 = 10_000;

#[derive(Debug, Clone)]
struct Node {
    id: u32,
    free: Vec<FreeSlot>,
    whole: bool,
}

/// A node's id, and the slots taken on it, in order of their ids.
type Plan = Option<(u32, BTreeSet<SlotId>)>;

/// Up to six nodes of up to eight slots. Ids and ordinals follow no order that the planner could rely on.
fn fleets() -> impl Generated<Value = (Vec<Node>, Ask)> {
    let ask = (0u8..=8, any::<bool>(), any::<bool>()).prop_map(|(gpus, exclusive, pack)| Ask {
        gpus,
        exclusive,
        strategy: if pack { Strategy::Pack } else { Strategy::Spread },
    });
    (proptest::collection::vec(nodes(), 0..=6), Just((0..6).collect::<Vec<u32>>()).prop_shuffle(), ask)
        .prop_map(|(mut nodes, ids, ask)| {
            nodes.iter_mut().zip(ids).for_each(|(node, id)| node.id = id);
            (nodes, ask)
        })
}

fn nodes() -> impl Generated<Value = Node> {
    let numbers = || Just((0i64..8).collect::<Vec<_>>()).prop_shuffle();
    // Half of the nodes are all free; otherwise hardly any could be taken exclusively.
    let slots = (1i64..=4, 1i64..=3, any::<bool>()).prop_flat_map(|(islands, numas, all_free)| {
        let free = any::<bool>().prop_map(move |free| free || all_free);
        proptest::collection::vec((0..islands, 0..numas, free), 0..=8)
    });
    (slots, numbers(), numbers(), any::<bool>()).prop_map(|(slots, ordinals, ids, counters_held)| {
        let whole = !counters_held && slots.iter().all(|(_, _, free)| *free);
        let numbered = slots.into_iter().zip(ordinals).zip(ids).filter(|(((_, _, free), _), _)| *free);
        let free = numbered.map(|(((island, numa, _), ordinal), id)| FreeSlot {
            id: format!("slt_{id:026}").parse().unwrap(),
            ordinal,
            island,
            numa,
        });
        Node { id: 0, free: free.collect(), whole }
    })
}

fn over_fleets(check: impl Fn(Vec<Node>, Ask) -> Result<(), TestCaseError>) {
    let config = Config { cases: FLEETS, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(&fleets(), |(nodes, ask)| check(nodes, ask)).unwrap();
}

/// The documented order, literally and without regard to speed; it calls nothing of the planner.
fn brute_force(nodes: &[Node], ask: &Ask) -> Plan {
    let mut best = None;
    for node in nodes.iter().filter(|node| node.whole || !ask.exclusive) {
        for mask in 0u32..1 << node.free.len() {
            if mask.count_ones() != u32::from(ask.gpus) {
                continue;
            }
            let (mut islands, mut numas, mut ordinals) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for (at, slot) in node.free.iter().enumerate() {
                if mask >> at & 1 == 1 {
                    islands.insert(slot.island);
                    numas.insert(slot.numa);
                    ordinals.insert(slot.ordinal);
                }
            }
            let untaken: Vec<_> = node.free.iter().filter(|slot| !ordinals.contains(&slot.ordinal)).collect();
            let preferred = match ask.strategy {
                Strategy::Spread if ask.gpus > 0 && !ask.exclusive => 100 - untaken.len(),
                _ => untaken.len(),
            };
            let key = (
                (islands.len() > 1, numas.len() > 1, preferred),
                node.id,
                untaken.iter().filter(|slot| islands.contains(&slot.island)).count(),
                untaken.iter().filter(|slot| numas.contains(&slot.numa)).count(),
                ordinals.iter().copied().collect::<Vec<_>>(),
            );
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                let taken = |slot: &&FreeSlot| ask.exclusive || ordinals.contains(&slot.ordinal);
                best = Some((key, (node.id, node.free.iter().filter(taken).map(|slot| slot.id).collect())));
            }
        }
    }
    best.map(|(_, plan)| plan)
}

/// Combines store and planner, with a possibly faulty sorter of fits and chooser of slots.
fn plan(
    nodes: &[Node],
    ask: &Ask,
    tiers: impl Fn(&[Fit], &Ask) -> Vec<Vec<Fit>>,
    choose: impl Fn(&[FreeSlot], u8) -> Option<Vec<SlotId>>,
) -> Plan {
    let mut lowest = BTreeMap::<Fit, &Node>::new();
    let mut fits = Vec::new();
    for node in nodes {
        let fit = Fit::of(&node.free, node.whole);
        fits.push(fit);
        let offered = lowest.entry(fit).or_insert(node);
        if node.id < offered.id {
            *offered = node;
        }
    }
    let tier = tiers(&fits, ask).into_iter().next()?;
    let node = tier.iter().map(|fit| lowest[fit]).min_by_key(|node| node.id)?;
    let all = || node.free.iter().map(|slot| slot.id).collect();
    let slots = if ask.exclusive { all() } else { choose(&node.free, ask.gpus)? };
    Some((node.id, slots.into_iter().collect()))
}

#[test]
fn plans_equal_brute_force_over_ten_thousand_fleets() {
    let (placed, refused) = (Cell::new(0u32), Cell::new(0u32));
    over_fleets(|nodes, ask| {
        let expected = brute_force(&nodes, &ask);
        let count = if expected.is_some() { &placed } else { &refused };
        count.set(count.get() + 1);
        prop_assert_eq!(plan(&nodes, &ask, tiers, choose_slots), expected);
        Ok(())
    });
    // Both results must be frequent, or the comparison proves little.
    let (placed, refused) = (placed.get(), refused.get());
    assert!(placed > FLEETS / 4 && refused > FLEETS / 20, "{placed} placed, {refused} refused");
}

#[test]
fn a_plan_does_not_depend_on_the_order_of_nodes_or_slots() {
    over_fleets(|nodes, ask| {
        let expected = plan(&nodes, &ask, tiers, choose_slots);
        let mut by_id = nodes.clone();
        by_id.sort_by_key(|node| node.id);
        by_id.iter_mut().for_each(|node| node.free.sort_by_key(|slot| slot.id));
        prop_assert_eq!(plan(&by_id, &ask, tiers, choose_slots), expected.clone());
        let mut backwards = nodes;
        backwards.reverse();
        backwards.iter_mut().for_each(|node| node.free.reverse());
        prop_assert_eq!(plan(&backwards, &ask, tiers, choose_slots), expected);
        Ok(())
    });
}

/// A sorter that uses only the part of a cost that `blind` leaves.
fn tiers_by(blind: fn(Cost) -> Cost) -> Sorter {
    Box::new(move |fits, ask| {
        let mut by_cost = BTreeMap::<Cost, Vec<Fit>>::new();
        for fit in fits {
            if let Some(cost) = cost(*fit, ask) {
                by_cost.entry(blind(cost)).or_default().push(*fit);
            }
        }
        by_cost.into_values().collect()
    })
}

fn by_ordinal_alone(free: &[FreeSlot], gpus: u8) -> Option<Vec<SlotId>> {
    let mut free = free.to_vec();
    free.sort_by_key(|slot| slot.ordinal);
    Some(free.iter().take(usize::from(gpus)).map(|slot| slot.id).collect())
}

#[test]
fn a_planner_without_any_one_of_its_keys_is_caught() {
    let faults: [(&str, Sorter, Chooser); 7] = [
        ("none", tiers_by(|cost| cost), choose_slots),
        ("islands", tiers_by(|cost| Cost { crosses_islands: false, ..cost }), choose_slots),
        ("numa nodes", tiers_by(|cost| Cost { crosses_numa: false, ..cost }), choose_slots),
        ("both", tiers_by(|cost| Cost { crosses_islands: false, crosses_numa: false, ..cost }), choose_slots),
        ("leftovers", tiers_by(|cost| Cost { leftover: 0, ..cost }), choose_slots),
        // Takes the first fit of the rank, though another of equal cost may stand for a node with a lower id.
        (
            "ids",
            Box::new(|fits, ask| rank(fits, ask).into_iter().map(|fit| vec![fit]).collect()),
            choose_slots,
        ),
        ("slots", Box::new(tiers), by_ordinal_alone),
    ];
    let caught = faults.each_ref().map(|_| Cell::new(0));
    over_fleets(|nodes, ask| {
        let expected = brute_force(&nodes, &ask);
        for ((_, tiers, choose), caught) in faults.iter().zip(&caught) {
            caught.set(caught.get() + u32::from(plan(&nodes, &ask, tiers, choose) != expected));
        }
        Ok(())
    });
    for ((forgotten, ..), caught) in faults.iter().zip(&caught) {
        println!("without {forgotten}: {} of {FLEETS} fleets", caught.get());
        // The first has no fault: it shows that the faults are caught and not the harness.
        assert_eq!(caught.get() > 0, *forgotten != "none", "{forgotten}: {}", caught.get());
    }
}
