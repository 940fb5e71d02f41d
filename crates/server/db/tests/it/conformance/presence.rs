//! Devices that go missing and come back.

use std::collections::BTreeSet;

use muster_db::{Presence, Store};
use muster_ids::{AllocationId, NodeId};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::node::{Slot, SlotState};

use super::slot::node;
use crate::made::{self, at, fleet, put};

on_both![
    missing_device_is_quarantined_and_restored_when_it_returns,
    a_slot_that_is_held_stays_with_its_holder_and_is_not_free_afterwards,
    a_slot_that_was_given_back_meanwhile_waits_until_it_was_wiped,
    an_operators_word_does_not_stand_in_for_a_device,
    quarantine_for_another_reason_survives_device_loss_and_return,
    presence_of_unapproved_or_retired_slots_is_not_reported,
];

const GONE: Option<&str> = Some("its device no longer exists");

/// Records that exactly these devices were found.
async fn found(store: &Store, node: NodeId, devices: &[&str]) -> Presence {
    let devices: BTreeSet<&str> = devices.iter().copied().collect();
    put(store, async |tx| {
        tx.node_lock(node).await?;
        tx.slot_presence(node, &devices, at(7)).await
    })
    .await
    .unwrap()
}

fn lost(slot: &Slot) -> Presence {
    Presence { lost: vec![(slot.id, slot.device.clone())], found: Vec::new() }
}

fn won(slot: &Slot) -> Presence {
    Presence { found: vec![(slot.id, slot.device.clone())], lost: Vec::new() }
}

async fn of(store: &Store, slot: &Slot) -> (SlotState, Option<String>) {
    let slot = store.slot_lookup(slot.id).await.unwrap().unwrap();
    (slot.state, slot.reason)
}

fn quarantined(reason: Option<&str>) -> (SlotState, Option<String>) {
    (SlotState::Quarantined, reason.map(str::to_owned))
}

async fn holder(store: &Store, node: NodeId, slot: &Slot) -> AllocationId {
    let (_, project) = fleet::place(store).await;
    let holder = fleet::requested(store, &project, "a").await.id;
    fleet::held(store, node, holder, &[slot.id]).await;
    holder
}

const BOTH: &[&str] = &["GPU-0", "GPU-1"];

async fn missing_device_is_quarantined_and_restored_when_it_returns(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let (other, _) = fleet::machine(&store, "gpu-2", 2).await;
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    assert_eq!(found(&store, id, &["GPU-0", "GPU-9"]).await, lost(&slots[1]));
    assert_eq!(of(&store, &slots[1]).await, quarantined(GONE));
    assert_eq!((node(&store, id).await.free.gpus, node(&store, id).await.total.gpus), (1, 2));
    assert_eq!(node(&store, other).await.free.gpus, 2, "its neighbour has a device of the same name");
    assert_eq!(found(&store, id, &["GPU-0"]).await, Presence::default(), "it is no news");
    let found_now = found(&store, id, BOTH).await;
    assert_eq!(found_now, won(&slots[1]));
    assert_eq!(of(&store, &slots[1]).await, (SlotState::Approved, None));
    assert_eq!(node(&store, id).await.free.gpus, 2);
    // All of them, as when the driver is not loaded.
    assert_eq!(found(&store, id, &[]).await.lost.len(), 2);
    assert_eq!((node(&store, id).await.free.gpus, found(&store, id, BOTH).await.found.len()), (0, 2));
}

async fn a_slot_that_is_held_stays_with_its_holder_and_is_not_free_afterwards(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let holder = holder(&store, id, &slots[1]).await;
    assert_eq!(found(&store, id, &["GPU-0"]).await, lost(&slots[1]));
    assert_eq!(store.claims_of(holder).await.unwrap().len(), 1);
    assert!(store.quarantined_for(holder).await.unwrap().is_empty(), "nobody can wipe it now");
    // Back before its release: still held as before, and free afterwards.
    assert_eq!(found(&store, id, BOTH).await, won(&slots[1]));
    let again = store.slot_lookup(slots[1].id).await.unwrap().unwrap();
    assert_eq!((again.state, again.allocation_id), (SlotState::Approved, Some(holder)));
    fleet::released(&store, id, holder, 1).await;
    assert_eq!(node(&store, id).await.free.gpus, 2);
}

async fn a_slot_that_was_given_back_meanwhile_waits_until_it_was_wiped(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let holder = holder(&store, id, &slots[1]).await;
    found(&store, id, &["GPU-0"]).await;
    fleet::released(&store, id, holder, 1).await;
    assert_eq!((of(&store, &slots[1]).await, node(&store, id).await.free.gpus), (quarantined(GONE), 1));
    let clean = async || {
        put(&store, async |tx| {
            let cleaned = tx.slot_clean_of(holder, at(9)).await?;
            tx.node_recount(id).await.map(|()| cleaned)
        })
        .await
        .unwrap()
    };
    assert_eq!(clean().await, 0, "what is not there was not seen to be clean");
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    let why = Some("returned while its device was missing; not verified to be clean");
    assert_eq!((of(&store, &slots[1]).await, node(&store, id).await.free.gpus), (quarantined(why), 1));
    // While the allocation is live, a wipe would also wipe its other devices.
    assert!(store.quarantined_on(id).await.unwrap().is_empty());
    let before = store.allocation_lookup(holder).await.unwrap().unwrap();
    fleet::moved(&store, &before, Allocation { state: AllocationState::Failed, ..before.clone() }).await;
    assert_eq!(store.quarantined_on(id).await.unwrap(), [holder]);
    assert_eq!(store.quarantined_for(holder).await.unwrap(), [(slots[1].id, slots[1].device.clone())]);
    // Missing once more, and back: still not wiped.
    assert_eq!(found(&store, id, &["GPU-0"]).await, Presence::default());
    assert!(store.quarantined_on(id).await.unwrap().is_empty() && clean().await == 0);
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    assert_eq!((clean().await, node(&store, id).await.free.gpus), (1, 2));
}

async fn an_operators_word_does_not_stand_in_for_a_device(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let holder = holder(&store, id, &slots[1]).await;
    found(&store, id, &["GPU-0"]).await;
    let approve =
        put(&store, async |tx| tx.slot_set_state(slots[1].id, SlotState::Approved, None, None, at(8)).await);
    made::is_conflict(approve.await);
    // Released by attestation: that is a reason of its own, which remains when the device is back.
    let word = put(&store, async |tx| tx.slot_quarantine_of(holder, "on a word", at(8)).await).await.unwrap();
    assert_eq!(word, 1);
    fleet::released(&store, id, holder, 1).await;
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    assert_eq!(of(&store, &slots[1]).await, quarantined(Some("on a word")));
    assert_eq!(store.quarantined_for(holder).await.unwrap().len(), 1);
}

async fn quarantine_for_another_reason_survives_device_loss_and_return(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let set = async |state, reason| {
        put(&store, async |tx| tx.slot_set_state(slots[1].id, state, reason, None, at(8)).await)
            .await
            .unwrap();
    };
    // Before it went missing, and while it was.
    set(SlotState::Quarantined, Some("fan")).await;
    assert_eq!(found(&store, id, &["GPU-0"]).await, Presence::default());
    assert_eq!(of(&store, &slots[1]).await, quarantined(Some("fan")));
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    assert_eq!(of(&store, &slots[1]).await, quarantined(Some("fan")));
    set(SlotState::Approved, None).await;
    assert_eq!(found(&store, id, &["GPU-0"]).await, lost(&slots[1]));
    set(SlotState::Quarantined, Some("cable")).await;
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    assert_eq!(of(&store, &slots[1]).await, quarantined(Some("cable")));
}

async fn presence_of_unapproved_or_retired_slots_is_not_reported(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 1).await;
    let fresh = Slot { state: SlotState::Discovered, ..fleet::slot(id, 1) };
    put(&store, async |tx| tx.slot_upsert(&fresh, at(3)).await).await.unwrap();
    let approve = async || {
        put(&store, async |tx| tx.slot_set_state(fresh.id, SlotState::Approved, None, None, at(8)).await)
            .await
    };
    assert_eq!(found(&store, id, &["GPU-0"]).await, Presence::default());
    made::is_conflict(approve().await);
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    approve().await.unwrap();
    // Retired while it is missing; when it comes back it is discovered again.
    found(&store, id, &["GPU-1"]).await;
    let retire =
        put(&store, async |tx| tx.slot_set_state(slots[0].id, SlotState::Retired, None, None, at(8)).await);
    retire.await.unwrap();
    assert_eq!(found(&store, id, &["GPU-1"]).await, Presence::default());
    assert_eq!(found(&store, id, BOTH).await, Presence::default());
    put(&store, async |tx| tx.slot_upsert(&slots[0], at(9)).await).await.unwrap();
    assert_eq!(of(&store, &slots[0]).await, (SlotState::Approved, None));
}
