//! Slots and the claims on them.

use muster_db::{Hold, Result, Store};
use muster_ids::{AllocationId, NodeId, SlotId};
use muster_model::node::{Capacity, Node, Slot, SlotState};
use muster_model::placement::Fit;

use crate::made::{self, at, fleet, put, same};

on_both![
    a_slot_reads_back_and_is_known_by_its_device,
    rediscovery_updates_hardware_facts_and_keeps_slot_decisions,
    a_slot_changes_its_state_with_a_reason_where_it_needs_one,
    a_slot_is_held_once,
    no_more_is_held_than_there_is,
    exclusive_hold_is_the_only_one_on_its_node,
    more_is_held_only_where_there_is_room,
    released_capacity_is_free_again,
    some_of_it_is_given_back_and_the_rest_stays,
    quarantined_slot_counts_in_total_and_is_not_free,
    unverified_slots_stay_quarantined_until_verified_clean,
    a_lock_is_on_a_node_that_is_there,
];

pub(super) async fn node(store: &Store, id: NodeId) -> Node {
    store.node_lookup(id).await.unwrap().unwrap()
}

/// Returns the free capacity of a node, and its number of holders.
async fn free(store: &Store, id: NodeId) -> (Capacity, i64) {
    let node = node(store, id).await;
    (node.free, node.holders)
}

async fn hold(store: &Store, hold: &Hold) -> Result<()> {
    put(store, async |tx| {
        tx.hold(hold, &fleet::claims(hold)).await?;
        tx.node_recount(hold.node).await
    })
    .await
}

async fn set(store: &Store, slot: SlotId, state: SlotState, reason: Option<&str>) -> Result<()> {
    put(store, async |tx| tx.slot_set_state(slot, state, reason, None, at(4)).await).await
}

async fn a_slot_reads_back_and_is_known_by_its_device(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 3).await;
    fleet::machine(&store, "gpu-2", 1).await;
    same(&store.slot_list(id).await.unwrap(), &slots);
    same(&store.slot_lookup(slots[1].id).await.unwrap(), &Some(slots[1].clone()));
    let seen = put(&store, async |tx| tx.slots_of(id).await).await.unwrap();
    same(&seen, &slots);
    assert!(store.slot_lookup(made::id()).await.unwrap().is_none());
    assert!(store.slot_list(made::id()).await.unwrap().is_empty());
    let nowhere = fleet::slot(made::id(), 0);
    made::is_gone(put(&store, async |tx| tx.slot_upsert(&nowhere, at(0)).await).await);
    let strange = Slot { kind: "tpu".to_owned(), device: "x".to_owned(), ..fleet::slot(id, 9) };
    made::is_conflict(put(&store, async |tx| tx.slot_upsert(&strange, at(0)).await).await);
}

async fn rediscovery_updates_hardware_facts_and_keeps_slot_decisions(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 4).await;
    set(&store, slots[1].id, SlotState::Quarantined, Some("fan")).await.unwrap();
    set(&store, slots[2].id, SlotState::Retired, None).await.unwrap();
    let fresh = fleet::slot(id, 4);
    let discovered = |slot: &Slot| Slot {
        id: made::id(),
        state: SlotState::Discovered,
        ordinal: slot.ordinal + 10,
        model: "B200".to_owned(),
        memory_mb: 1,
        numa: 2,
        island: 3,
        ..slot.clone()
    };
    let again: Vec<Slot> = slots[..3].iter().chain([&fresh]).map(discovered).collect();
    put(&store, async |tx| {
        for slot in &again {
            tx.slot_upsert(slot, at(7)).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let found = store.slot_list(id).await.unwrap();
    let states: Vec<&str> = found.iter().map(|slot| slot.state.as_str()).collect();
    assert_eq!(states, ["approved", "approved", "quarantined", "discovered", "discovered"]);
    let first = found.iter().find(|slot| slot.id == slots[0].id).expect("its id is the first one's");
    assert_eq!((first.ordinal, first.model.as_str(), first.memory_mb), (10, "B200", 1));
    assert_eq!((first.numa, first.island, first.version), (2, 3, 2));
    assert_eq!(found[2].reason.as_deref(), Some("fan"));
    same(&found[0], &slots[3]);
    // An approval makes a discovered slot usable.
    let approved = Slot { state: SlotState::Approved, ..again[3].clone() };
    put(&store, async |tx| tx.slot_upsert(&approved, at(8)).await).await.unwrap();
    assert_eq!(store.slot_lookup(again[3].id).await.unwrap().unwrap().state, SlotState::Approved);
}

async fn a_slot_changes_its_state_with_a_reason_where_it_needs_one(store: Store) {
    let (_, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let slot = slots[0].id;
    made::is_conflict(set(&store, slot, SlotState::Quarantined, None).await);
    made::is_conflict(set(&store, slot, SlotState::Approved, Some("because")).await);
    set(&store, slot, SlotState::Quarantined, Some("fan")).await.unwrap();
    let found = store.slot_lookup(slot).await.unwrap().unwrap();
    assert_eq!(
        (found.state, found.reason.as_deref(), found.version),
        (SlotState::Quarantined, Some("fan"), 2)
    );
    set(&store, slot, SlotState::Approved, None).await.unwrap();
    set(&store, slot, SlotState::Retired, None).await.unwrap();
    made::is_gone(set(&store, slot, SlotState::Approved, None).await);
    made::is_gone(set(&store, made::id(), SlotState::Approved, None).await);
    same(&store.slot_lookup(slots[1].id).await.unwrap(), &Some(slots[1].clone()));
}

async fn a_slot_is_held_once(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 4).await;
    let (_, project) = fleet::place(&store).await;
    let first = fleet::requested(&store, &project, "a").await.id;
    let second = fleet::requested(&store, &project, "b").await.id;
    hold(&store, &fleet::hold(id, first, &[slots[0].id, slots[1].id])).await.unwrap();
    assert_eq!(free(&store, id).await, (fleet::capacity(2, 62, 996, 1992), 1));
    made::is_conflict(hold(&store, &fleet::hold(id, second, &[slots[2].id, slots[1].id])).await);
    assert_eq!(free(&store, id).await, (fleet::capacity(2, 62, 996, 1992), 1), "nothing of it stays");
    let held: Vec<_> = store.slot_list(id).await.unwrap().iter().map(|slot| slot.allocation_id).collect();
    assert_eq!(held, [Some(first), Some(first), None, None]);
    assert_eq!(store.slot_lookup(slots[0].id).await.unwrap().unwrap().allocation_id, Some(first));
    let claims = store.claims_of(first).await.unwrap();
    assert_eq!(claims, [0, 1].map(|n: usize| (slots[n].id, slots[n].device.clone())));
    assert!(store.claims_of(second).await.unwrap().is_empty());
    hold(&store, &fleet::hold(id, second, &[slots[2].id, slots[3].id])).await.unwrap();
    // An allocation that holds only CPUs is a holder too.
    let third = fleet::requested(&store, &project, "c").await.id;
    hold(&store, &fleet::hold(id, third, &[])).await.unwrap();
    assert_eq!(free(&store, id).await, (fleet::capacity(0, 58, 988, 1976), 3));
    let nowhere = Hold { amount: Capacity::default(), ..fleet::hold(id, third, &[made::id()]) };
    made::is_gone(hold(&store, &nowhere).await);
    made::is_gone(hold(&store, &fleet::hold(made::id(), third, &[])).await);
}

async fn no_more_is_held_than_there_is(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let (_, project) = fleet::place(&store).await;
    let holder = fleet::requested(&store, &project, "a").await.id;
    let plain = fleet::hold(id, holder, &[]);
    for amount in [
        fleet::capacity(0, 65, 0, 0),
        fleet::capacity(0, 0, 1001, 0),
        fleet::capacity(0, 0, 0, 2001),
        fleet::capacity(3, 0, 0, 0),
        // Releasing more than is held is an error too.
        fleet::capacity(0, -1, 0, 0),
        fleet::capacity(-1, 0, 0, 0),
    ] {
        made::is_conflict(hold(&store, &Hold { amount, ..plain.clone() }).await);
    }
    made::is_conflict(hold(&store, &Hold { holders: -1, ..plain.clone() }).await);
    hold(&store, &Hold { amount: fleet::WHOLE, ..plain }).await.unwrap();
    assert_eq!(free(&store, id).await, (fleet::capacity(2, 0, 0, 0), 1));
    same(&store.slot_list(id).await.unwrap(), &slots);
}

async fn exclusive_hold_is_the_only_one_on_its_node(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let (_, project) = fleet::place(&store).await;
    let alone = fleet::requested(&store, &project, "a").await.id;
    let other = fleet::requested(&store, &project, "b").await.id;
    let all: Vec<SlotId> = slots.iter().map(|slot| slot.id).collect();
    fleet::held(&store, id, other, &[]).await;
    let exclusive = Hold { exclusive: true, ..fleet::hold(id, alone, &all) };
    made::is_conflict(hold(&store, &exclusive).await);
    fleet::released(&store, id, other, 0).await;
    hold(&store, &exclusive).await.unwrap();
    assert_eq!(put(&store, async |tx| tx.node_lock(id).await).await.unwrap(), (1, true));
    made::is_conflict(hold(&store, &Hold { exclusive: true, ..fleet::hold(id, other, &[]) }).await);
    assert!(store.fits().await.unwrap().is_empty(), "it takes nobody");
    fleet::released(&store, id, alone, 2).await;
    assert_eq!(put(&store, async |tx| tx.node_lock(id).await).await.unwrap(), (0, false));
    assert_eq!(store.fits().await.unwrap().len(), 1);
}

async fn more_is_held_only_where_there_is_room(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let (_, project) = fleet::place(&store).await;
    let holder = fleet::requested(&store, &project, "a").await.id;
    fleet::held(&store, id, holder, &[slots[0].id]).await;
    let more = async |amount: Capacity| {
        let hold = Hold { amount, holders: 0, ..fleet::hold(id, holder, &[slots[1].id]) };
        put(&store, async |tx| {
            tx.node_lock(id).await?;
            tx.hold_if_room(&hold, &fleet::claims(&hold)).await
        })
        .await
        .unwrap()
    };
    for too_much in
        [fleet::capacity(1, 63, 0, 0), fleet::capacity(1, 0, 997, 0), fleet::capacity(1, 0, 0, 1993)]
    {
        assert!(!more(too_much).await);
    }
    assert_eq!(store.claims_of(holder).await.unwrap().len(), 1);
    assert!(more(fleet::capacity(1, 62, 996, 1992)).await);
    assert_eq!(free(&store, id).await, (Capacity::default(), 1));
    assert_eq!(store.claims_of(holder).await.unwrap().len(), 2);
}

async fn released_capacity_is_free_again(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let (_, project) = fleet::place(&store).await;
    let (whole, fit) = (free(&store, id).await, store.fits().await.unwrap());
    assert_eq!(fit, [Fit { whole: true, gpus: 2, pocket: 2, island: 2, numa: 2 }]);
    let first = fleet::requested(&store, &project, "a").await.id;
    let second = fleet::requested(&store, &project, "b").await.id;
    fleet::held(&store, id, first, &[slots[0].id]).await;
    fleet::held(&store, id, second, &[slots[1].id]).await;
    fleet::released(&store, id, first, 1).await;
    assert_eq!(store.claims_of(second).await.unwrap().len(), 1, "its neighbour's is not touched");
    assert_eq!(store.fits().await.unwrap(), [Fit { whole: false, gpus: 1, pocket: 1, island: 1, numa: 1 }]);
    fleet::released(&store, id, second, 1).await;
    assert_eq!((free(&store, id).await, store.fits().await.unwrap()), (whole, fit));
    // Claimed again by another allocation: the released claim is history.
    fleet::held(&store, id, second, &[slots[0].id]).await;
    assert_eq!(store.slot_lookup(slots[0].id).await.unwrap().unwrap().allocation_id, Some(second));
    let absent = put(&store, async |tx| tx.unhold(made::id(), first, &Capacity::default(), at(6)).await);
    made::is_gone(absent.await);
    let twice = put(&store, async |tx| tx.unhold(id, first, &fleet::capacity(1, 64, 0, 0), at(6)).await);
    made::is_conflict(twice.await);
}

async fn some_of_it_is_given_back_and_the_rest_stays(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 4).await;
    let (_, project) = fleet::place(&store).await;
    let holder = fleet::requested(&store, &project, "a").await.id;
    let other = fleet::requested(&store, &project, "b").await.id;
    fleet::held(&store, id, holder, &[slots[0].id, slots[1].id, slots[2].id]).await;
    fleet::held(&store, id, other, &[slots[3].id]).await;
    put(&store, async |tx| {
        tx.node_lock(id).await?;
        // The fourth slot is not held by this allocation.
        let given = [slots[1].id, slots[2].id, slots[3].id];
        tx.unhold_some(id, holder, &given, &fleet::capacity(2, 1, 1, 1), at(6)).await?;
        tx.node_recount(id).await
    })
    .await
    .unwrap();
    assert_eq!(store.claims_of(holder).await.unwrap(), [(slots[0].id, slots[0].device.clone())]);
    assert_eq!(store.claims_of(other).await.unwrap().len(), 1);
    assert_eq!(free(&store, id).await, (fleet::capacity(2, 61, 993, 1985), 2));
}

async fn quarantined_slot_counts_in_total_and_is_not_free(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 4).await;
    let (_, project) = fleet::place(&store).await;
    let recount = async || put(&store, async |tx| tx.node_recount(id).await).await.unwrap();
    set(&store, slots[0].id, SlotState::Quarantined, Some("fan")).await.unwrap();
    recount().await;
    let found = node(&store, id).await;
    assert_eq!((found.total.gpus, found.free.gpus, found.version), (4, 3, 2));
    assert!(!store.fits().await.unwrap()[0].whole, "nobody gets the node as a whole");
    set(&store, slots[1].id, SlotState::Retired, None).await.unwrap();
    recount().await;
    assert_eq!((node(&store, id).await.total.gpus, free(&store, id).await.0.gpus), (3, 2));
    // A held and quarantined slot is not free after its release.
    let holder = fleet::requested(&store, &project, "a").await.id;
    fleet::held(&store, id, holder, &[slots[2].id]).await;
    set(&store, slots[2].id, SlotState::Quarantined, Some("fan")).await.unwrap();
    fleet::released(&store, id, holder, 1).await;
    assert_eq!((free(&store, id).await.0.gpus, store.fits().await.unwrap()[0].gpus), (1, 1));
    made::is_gone(put(&store, async |tx| tx.node_recount(made::id()).await).await);
}

/// Fails an allocation that was never placed.
async fn failed(store: &Store, id: AllocationId) {
    use muster_model::allocation::{Allocation, AllocationState};
    let before = store.allocation_lookup(id).await.unwrap().unwrap();
    fleet::moved(store, &before, Allocation { state: AllocationState::Failed, ..before.clone() }).await;
}

async fn unverified_slots_stay_quarantined_until_verified_clean(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 4).await;
    let (_, project) = fleet::place(&store).await;
    let holder = fleet::requested(&store, &project, "a").await.id;
    let other = fleet::requested(&store, &project, "b").await.id;
    fleet::held(&store, id, holder, &[slots[0].id, slots[1].id]).await;
    fleet::held(&store, id, other, &[slots[2].id]).await;
    set(&store, slots[1].id, SlotState::Quarantined, Some("an operator's")).await.unwrap();
    let quarantined =
        put(&store, async |tx| tx.slot_quarantine_of(holder, "not wiped", at(6)).await).await.unwrap();
    assert_eq!(quarantined, 1, "what an operator quarantined keeps its reason");
    assert_eq!(store.quarantined_for(holder).await.unwrap(), [(slots[0].id, slots[0].device.clone())]);
    fleet::released(&store, id, holder, 2).await;
    assert_eq!(free(&store, id).await.0.gpus, 1);

    assert!(store.quarantined_nodes().await.unwrap().is_empty(), "what lives is not cleaned up after");
    assert!(store.quarantined_on(id).await.unwrap().is_empty());
    failed(&store, holder).await;
    assert_eq!(store.quarantined_nodes().await.unwrap(), [id]);
    assert_eq!(store.quarantined_on(id).await.unwrap(), [holder]);
    assert!(store.quarantined_on(made::id()).await.unwrap().is_empty());
    put(&store, async |tx| tx.node_lost(id, at(7)).await).await.unwrap();
    assert!(store.quarantined_nodes().await.unwrap().is_empty(), "nobody can ask it");
    put(&store, async |tx| tx.node_back(id, at(7)).await).await.unwrap();

    let clean = async |allocation| {
        put(&store, async |tx| {
            let cleaned = tx.slot_clean_of(allocation, at(8)).await?;
            tx.node_recount(id).await.map(|()| cleaned)
        })
        .await
        .unwrap()
    };
    assert_eq!((clean(other).await, clean(holder).await, clean(holder).await), (0, 1, 0));
    let found = store.slot_list(id).await.unwrap();
    let reasons: Vec<Option<&str>> = found.iter().map(|slot| slot.reason.as_deref()).collect();
    assert_eq!(reasons, [None, Some("an operator's"), None, None]);
    assert_eq!(free(&store, id).await.0.gpus, 2);
    assert!(store.quarantined_for(holder).await.unwrap().is_empty());
    assert!(store.quarantined_nodes().await.unwrap().is_empty());
}

async fn a_lock_is_on_a_node_that_is_there(store: Store) {
    let (id, _) = fleet::machine(&store, "gpu-1", 0).await;
    assert_eq!(put(&store, async |tx| tx.node_lock(id).await).await.unwrap(), (0, false));
    made::is_gone(put(&store, async |tx| tx.node_lock(made::id()).await).await);
}
