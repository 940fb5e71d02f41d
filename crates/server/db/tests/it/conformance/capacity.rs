//! Available capacity, and the choice of a node.

use muster_db::{Hold, Silent, Store};
use muster_ids::NodeId;
use muster_model::node::{Capacity, SlotState};
use muster_model::placement::{Ask, Fit, Room, Strategy, rooms_of};

use crate::made::{self, at, fleet, put};

on_both![
    each_kind_of_node_is_listed_once,
    kinds_are_counted_with_the_most_that_one_of_them_has,
    rooms_say_how_many_have_all_and_what_each_lacks,
    the_candidate_is_the_lowest_of_its_kinds_that_has_enough,
    only_a_node_that_takes_work_is_a_candidate,
    a_candidate_comes_with_the_slots_that_are_free,
    room_is_found_without_a_lock,
    a_silent_node_is_never_a_candidate,
    rooms_counted_here_are_those_that_a_plan_counts,
    the_largest_node_counts_whatever_is_held_of_it,
    the_line_is_as_long_as_those_who_wait,
];

const NOTHING: Capacity = Capacity { gpus: 0, cpus: 0, memory_mb: 0, disk_mb: 0 };

fn fit(whole: bool, gpus: u8, pocket: u8, island: u8, numa: u8) -> Fit {
    Fit { whole, gpus, pocket, island, numa }
}

/// Makes an allocation hold an amount, which changes the node's fit.
async fn take(store: &Store, node: NodeId, name: &str, amount: Capacity) {
    let project = match store.project_by_qualified_name("acme", "train").await.unwrap() {
        Some(project) => project,
        None => fleet::place(store).await.1,
    };
    let holder = fleet::requested(store, &project, name).await.id;
    let hold = Hold { amount, ..fleet::hold(node, holder, &[]) };
    put(store, async |tx| {
        tx.hold(&hold, &[]).await?;
        tx.node_recount(node).await
    })
    .await
    .unwrap();
}

async fn candidate(store: &Store, kinds: &[Fit], need: &Capacity) -> Option<NodeId> {
    put(store, async |tx| tx.candidate(kinds, need, at(2)).await).await.unwrap().map(|found| found.node)
}

async fn each_kind_of_node_is_listed_once(store: Store) {
    assert!(store.fits().await.unwrap().is_empty());
    fleet::machine(&store, "a", 8).await;
    fleet::machine(&store, "b", 8).await;
    fleet::machine(&store, "c", 0).await;
    let (held, _) = fleet::machine(&store, "d", 8).await;
    take(&store, held, "x", fleet::capacity(0, 1, 1, 1)).await;
    let kinds = [fit(false, 8, 2, 2, 4), fit(true, 0, 0, 0, 0), fit(true, 8, 2, 2, 4)];
    assert_eq!(store.fits().await.unwrap(), kinds);
    assert_eq!(put(&store, async |tx| tx.fits().await).await.unwrap(), kinds);
    let mut tx = store.begin().await.unwrap();
    tx.node_set_cordoned(held, true, at(3)).await.unwrap();
    assert_eq!(tx.fits().await.unwrap(), kinds[1..], "as the transaction sees it");
    tx.rollback().await;
}

async fn kinds_are_counted_with_the_most_that_one_of_them_has(store: Store) {
    let (a, _) = fleet::machine(&store, "a", 2).await;
    let (b, _) = fleet::machine(&store, "b", 2).await;
    fleet::machine(&store, "c", 4).await;
    take(&store, a, "x", fleet::capacity(0, 60, 1, 1)).await;
    take(&store, b, "y", fleet::capacity(0, 1, 900, 1)).await;
    let counts = store.fit_counts().await.unwrap();
    let counts: Vec<_> = counts.iter().map(|count| (count.fit, count.nodes, count.most)).collect();
    let mixed = (fit(false, 2, 2, 2, 2), 2, fleet::capacity(2, 63, 999, 1999));
    assert_eq!(counts, [mixed, (fit(true, 4, 2, 2, 4), 1, fleet::capacity(4, 64, 1000, 2000))]);
}

async fn rooms_say_how_many_have_all_and_what_each_lacks(store: Store) {
    assert!(store.rooms(&NOTHING, at(2)).await.unwrap().is_empty());
    let (a, _) = fleet::machine(&store, "a", 1).await;
    let (b, _) = fleet::machine(&store, "b", 1).await;
    take(&store, a, "x", fleet::capacity(0, 60, 100, 0)).await;
    take(&store, b, "y", fleet::capacity(0, 4, 900, 0)).await;
    let kind = fit(false, 1, 1, 1, 1);
    let room = |nodes, beside, most| Room { fit: kind, nodes, beside, most };
    let most = fleet::capacity(1, 60, 900, 2000);
    // Neither has 10 CPUs and 500 MiB: the one with the memory has 4 CPUs, the one with the CPUs 100 MiB.
    let need = fleet::capacity(0, 10, 500, 1);
    let rooms = store.rooms(&need, at(2)).await.unwrap();
    assert_eq!(rooms, [room(0, fleet::capacity(1, 4, 100, 0), most)]);
    let rooms = store.rooms(&fleet::capacity(0, 4, 500, 1), at(2)).await.unwrap();
    assert_eq!(rooms, [room(1, fleet::capacity(1, 4, 900, 2000), most)]);
    assert_eq!(store.rooms(&NOTHING, at(2)).await.unwrap(), [room(2, most, most)]);
    // Without the node that has the CPUs.
    let left = fleet::capacity(1, 4, 900, 2000);
    assert_eq!(store.rooms_elsewhere(&NOTHING, at(2), b).await.unwrap(), [room(1, left, left)]);
}

async fn the_candidate_is_the_lowest_of_its_kinds_that_has_enough(store: Store) {
    let (small, large) = (fit(true, 1, 1, 1, 1), fit(true, 2, 2, 2, 2));
    let (a, _) = fleet::machine(&store, "a", 1).await;
    let (b, _) = fleet::machine(&store, "b", 2).await;
    let (c, _) = fleet::machine(&store, "c", 1).await;
    assert_eq!(candidate(&store, &[small], &NOTHING).await, Some(a));
    assert_eq!(candidate(&store, &[large], &NOTHING).await, Some(b));
    assert_eq!(candidate(&store, &[large, small], &NOTHING).await, Some(a));
    assert_eq!(candidate(&store, &[], &NOTHING).await, None);
    assert_eq!(candidate(&store, &[fit(true, 3, 3, 3, 3)], &NOTHING).await, None);
    take(&store, a, "x", fleet::capacity(0, 60, 900, 1900)).await;
    let held = fit(false, 1, 1, 1, 1);
    assert_eq!(candidate(&store, &[held, small], &fleet::capacity(0, 4, 100, 100)).await, Some(a));
    for more in [fleet::capacity(0, 5, 0, 0), fleet::capacity(0, 0, 101, 0), fleet::capacity(0, 0, 0, 101)] {
        assert_eq!(candidate(&store, &[held, small], &more).await, Some(c));
    }
    assert_eq!(candidate(&store, &[held, small], &fleet::capacity(0, 65, 0, 0)).await, None);
}

async fn only_a_node_that_takes_work_is_a_candidate(store: Store) {
    let kind = [fit(true, 1, 1, 1, 1), fit(false, 1, 1, 1, 1)];
    let (id, _) = fleet::machine(&store, "a", 1).await;
    let found = async || candidate(&store, &kind, &NOTHING).await;
    assert_eq!(found().await, Some(id));
    put(&store, async |tx| tx.node_set_cordoned(id, true, at(3)).await).await.unwrap();
    assert_eq!((found().await, store.fits().await.unwrap().len()), (None, 0));
    put(&store, async |tx| tx.node_set_cordoned(id, false, at(3)).await).await.unwrap();
    put(&store, async |tx| tx.node_lost(id, at(3)).await).await.unwrap();
    assert_eq!(found().await, None);
    put(&store, async |tx| tx.node_back(id, at(3)).await).await.unwrap();
    assert_eq!(found().await, Some(id));
    let joining = fleet::joining("b");
    put(&store, async |tx| tx.node_join(&joining).await).await.unwrap();
    assert_eq!(candidate(&store, &[fit(false, 0, 0, 0, 0)], &NOTHING).await, None, "nobody approved it");
}

async fn a_candidate_comes_with_the_slots_that_are_free(store: Store) {
    let (id, slots) = fleet::machine(&store, "a", 4).await;
    let (_, project) = fleet::place(&store).await;
    let holder = fleet::requested(&store, &project, "x").await.id;
    fleet::held(&store, id, holder, &[slots[1].id]).await;
    let why = Some("fan");
    put(&store, async |tx| {
        tx.slot_set_state(slots[2].id, SlotState::Quarantined, why, None, at(3)).await?;
        tx.node_recount(id).await
    })
    .await
    .unwrap();
    let kinds = store.fits().await.unwrap();
    assert_eq!(kinds, [fit(false, 2, 1, 1, 2)]);
    let found = put(&store, async |tx| tx.candidate(&kinds, &NOTHING, at(2)).await).await.unwrap().unwrap();
    let free: Vec<_> =
        found.free.iter().map(|slot| (slot.id, slot.ordinal, slot.island, slot.numa)).collect();
    assert_eq!((found.node, found.total), (id, fleet::WHOLE));
    assert_eq!(free, [(slots[0].id, 0, 0, 0), (slots[3].id, 3, 1, 0)]);
    // A node without GPUs counts as well.
    let (bare, _) = fleet::machine(&store, "b", 0).await;
    let kinds = [fit(true, 0, 0, 0, 0)];
    let found = put(&store, async |tx| tx.candidate(&kinds, &NOTHING, at(2)).await).await.unwrap().unwrap();
    assert_eq!((found.node, found.free.len()), (bare, 0));
}

async fn room_is_found_without_a_lock(store: Store) {
    let (whole, _) = fleet::machine(&store, "a", 2).await;
    let (held, _) = fleet::machine(&store, "b", 4).await;
    take(&store, held, "x", fleet::capacity(0, 4, 0, 0)).await;
    let room = async |gpus, exclusive, need: Capacity| {
        let ask = Ask { gpus, exclusive, strategy: Strategy::Pack };
        put(&store, async |tx| tx.node_with_room(&ask, &need, at(2)).await).await.unwrap()
    };
    assert_eq!(room(3, false, NOTHING).await, Some(held));
    assert_eq!(room(2, true, NOTHING).await, Some(whole), "only what nobody holds can be had alone");
    assert_eq!(room(3, true, NOTHING).await, None);
    assert_eq!(room(5, false, NOTHING).await, None);
    assert!(room(2, false, NOTHING).await.is_some());
    assert_eq!(room(2, false, fleet::capacity(0, 61, 0, 0)).await, Some(whole));
    assert_eq!(room(3, false, fleet::capacity(0, 61, 0, 0)).await, None);
    assert_eq!(room(0, false, fleet::capacity(0, 0, 1001, 0)).await, None);
    assert_eq!(room(0, false, fleet::capacity(0, 0, 0, 2001)).await, None);
}

async fn a_silent_node_is_never_a_candidate(store: Store) {
    let kind = [fit(true, 1, 1, 1, 1)];
    let (silent, _) = fleet::machine(&store, "a", 1).await;
    fleet::machine(&store, "b", 1).await;
    let unheard = "DELETE FROM node_heartbeats WHERE node_id = (SELECT id FROM nodes WHERE name = 'b')";
    store.sabotage(unheard).await.unwrap();
    let (alive, _) = fleet::machine(&store, "c", 1).await;
    store.heartbeat_write(&[alive], &[], at(60)).await.unwrap();
    let ask = Ask { gpus: 1, exclusive: false, strategy: Strategy::Pack };
    let chosen = async |since: i64| {
        put(&store, async |tx| {
            let candidate = tx.candidate(&kind, &NOTHING, at(since)).await?.map(|found| found.node);
            let room = tx.node_with_room(&ask, &NOTHING, at(since)).await?;
            let counted = tx.rooms(&NOTHING, at(since)).await?.first().map_or(0, |room| room.nodes);
            Ok((candidate, room, counted, tx.silent_with_room(&ask, &NOTHING, at(since)).await?))
        })
        .await
        .unwrap()
    };
    let silence = |nodes, seen_at: i64| Some(Silent { nodes, seen_at: Some(at(seen_at)) });
    let unheard = Some(Silent { nodes: 1, seen_at: None });
    assert_eq!(chosen(2).await, (Some(silent), Some(silent), 2, unheard), "it was heard just then");
    assert_eq!(chosen(3).await, (Some(alive), Some(alive), 1, silence(2, 2)), "whatever its id and state");
    assert_eq!(chosen(61).await, (None, None, 0, silence(3, 60)));
    assert_eq!(store.rooms(&NOTHING, at(61)).await.unwrap(), []);
    let on_store = store.silent_with_room(&ask, &fleet::capacity(0, 65, 0, 0), at(61)).await.unwrap();
    assert_eq!(on_store, None, "none of them has so many CPUs");
    store.heartbeat_write(&[silent], &[], at(61)).await.unwrap();
    assert_eq!(chosen(61).await, (Some(silent), Some(silent), 1, silence(2, 60)), "it is heard again");
}

async fn rooms_counted_here_are_those_that_a_plan_counts(store: Store) {
    let (a, _) = fleet::machine(&store, "a", 1).await;
    let (b, _) = fleet::machine(&store, "b", 1).await;
    fleet::machine(&store, "c", 2).await;
    take(&store, a, "x", fleet::capacity(0, 60, 100, 0)).await;
    take(&store, b, "y", fleet::capacity(0, 4, 900, 0)).await;
    let nodes = store.free_nodes(at(2)).await.unwrap();
    assert_eq!((nodes.len(), nodes[0].free), (3, fleet::capacity(1, 4, 900, 2000)));
    assert_eq!(nodes[0].total.cpus, 64);
    for need in [NOTHING, fleet::capacity(0, 10, 500, 1), fleet::capacity(1, 4, 500, 1)] {
        assert_eq!(rooms_of(&nodes, &need), store.rooms(&need, at(2)).await.unwrap(), "{need:?}");
    }
    assert!(store.free_nodes(at(3)).await.unwrap().is_empty(), "none was heard since");
}

async fn the_largest_node_counts_whatever_is_held_of_it(store: Store) {
    let empty = store.largest_nodes(&NOTHING).await.unwrap();
    assert_eq!((empty.nodes, empty.most, empty.large_enough), (0, NOTHING, 0));
    let (a, _) = fleet::machine(&store, "a", 8).await;
    fleet::machine(&store, "b", 2).await;
    take(&store, a, "x", fleet::capacity(0, 64, 1000, 2000)).await;
    put(&store, async |tx| tx.node_lost(a, at(9)).await).await.unwrap();
    let largest = async |gpus, cpus| store.largest_nodes(&fleet::capacity(gpus, cpus, 1, 1)).await.unwrap();
    let found = largest(8, 64).await;
    assert_eq!((found.nodes, found.most, found.large_enough), (2, fleet::capacity(8, 64, 1000, 2000), 1));
    assert_eq!((largest(9, 1).await.large_enough, largest(1, 65).await.large_enough), (0, 0));
    assert_eq!(largest(2, 64).await.large_enough, 2);
}

async fn the_line_is_as_long_as_those_who_wait(store: Store) {
    use muster_model::allocation::{Allocation, AllocationState};
    let (_, project) = fleet::place(&store).await;
    assert_eq!(store.queue_length().await.unwrap(), 0);
    let first = fleet::requested(&store, &project, "a").await;
    fleet::requested(&store, &project, "b").await;
    let placing = Allocation { state: AllocationState::Placing, ..first.clone() };
    fleet::moved(&store, &first, placing).await;
    assert_eq!(store.queue_length().await.unwrap(), 1);
    assert_eq!(store.queue_position(made::id()).await.unwrap(), 1);
}
