//! What must hold at the end of every story, judged by the node's own journal and by plain counting.

use std::collections::BTreeSet;

use muster_model::allocation::AllocationState;
use muster_model::cell::CellState;
use muster_model::node::{Capacity, SlotState};
use muster_store::{AllocationFilter, CellFilter, Page};
use muster_testkit::Database;

use crate::rig::Rig;

/// Holds the laws against the database and the node.
pub(crate) async fn hold(rig: &Rig) {
    assert_eq!(rig.node.violations, Vec::<String>::new());
    let node = rig.store.node_lookup(rig.node.id).await.unwrap().unwrap();
    let page = Page { after: uuid::Uuid::nil(), size: 10_000 };
    let every = muster_model::LabelSelector::parse("").unwrap();
    let all = rig.store.allocation_list(page, &every, AllocationFilter::default()).await.unwrap();
    let on_node: Vec<_> = all.iter().filter(|allocation| allocation.held != Capacity::default()).collect();

    // Counters: what is free and what is held make the whole.
    let sum =
        |amount: fn(&Capacity) -> i64| on_node.iter().map(|allocation| amount(&allocation.held)).sum::<i64>();
    assert_eq!(node.free.cpus + sum(|held| held.cpus), node.total.cpus);
    assert_eq!(node.free.memory_mb + sum(|held| held.memory_mb), node.total.memory_mb);
    assert_eq!(node.free.disk_mb + sum(|held| held.disk_mb), node.total.disk_mb);
    assert_eq!(node.holders, i64::try_from(on_node.len()).unwrap());

    // Slots: each claimed by one that holds as many, or free, or quarantined.
    let slots = rig.store.slot_list(rig.node.id).await.unwrap();
    let free = slots.iter().filter(|slot| slot.allocation_id.is_none() && slot.state == SlotState::Approved);
    assert_eq!(node.free.gpus, i64::try_from(free.count()).unwrap());
    for allocation in &on_node {
        let claimed = slots.iter().filter(|slot| slot.allocation_id == Some(allocation.id)).count();
        assert_eq!(allocation.held.gpus, i64::try_from(claimed).unwrap());
    }

    // The node has exactly the places of what is active, with the same devices.
    let active: BTreeSet<_> =
        all.iter().filter(|allocation| allocation.state == AllocationState::Active).map(|a| a.id).collect();
    let under_way = |id| all.iter().any(|a| a.id == id && !a.state.is_final());
    for id in &active {
        let made = rig.node.places.get(id).unwrap_or_else(|| panic!("{id} is active and has no place"));
        let devices: BTreeSet<String> = slots
            .iter()
            .filter(|slot| slot.allocation_id == Some(*id))
            .map(|slot| slot.device.clone())
            .collect();
        assert_eq!(made.devices, devices);
    }
    for id in rig.node.places.keys() {
        assert!(under_way(*id), "{id} is over and still has a place");
    }

    // The node has exactly the cells that run, of the same incarnations; what is gone has left its place and its port.
    let cells = rig.store.cell_list(page, &every, rig.project.id, CellFilter::default()).await.unwrap();
    for cell in &cells {
        let there = rig.node.cells.get(&cell.id).map(|(_, incarnation)| *incarnation);
        match cell.state {
            CellState::Running => assert_eq!(there, Some(cell.incarnation), "{} runs", cell.id),
            CellState::Gone | CellState::Failed => {
                assert_eq!(there, None, "{} is {} and still there", cell.id, cell.state);
                assert_eq!(rig.store.node_port_of(cell.id).await.unwrap(), []);
            }
            _ => {}
        }
    }
    assert!(
        rig.node.cells.keys().all(|id| cells.iter().any(|cell| cell.id == *id && !cell.state.is_final()))
    );

    // Nothing that can be claimed is dirty.
    for slot in slots.iter().filter(|slot| slot.allocation_id.is_none() && slot.state == SlotState::Approved)
    {
        assert!(!rig.node.dirty.contains_key(&slot.device), "{} is free and not wiped", slot.device);
    }

    // The quota is what lives.
    let quota = rig.store.quota_lookup(rig.project.id).await.unwrap();
    let living: Vec<_> = all.iter().filter(|allocation| !allocation.state.is_final()).collect();
    assert_eq!(quota.used_allocations, i64::try_from(living.len()).unwrap());
    let promised = |amount: fn(&Capacity) -> i64| living.iter().map(|a| amount(&a.capacity)).sum::<i64>();
    assert_eq!(quota.used.gpus, promised(|capacity| capacity.gpus));
    assert_eq!(quota.used.cpus, promised(|capacity| capacity.cpus));
    assert_eq!(quota.used.disk_mb, promised(|capacity| capacity.disk_mb));
}

/// The judges themselves are judged: each planted fault must be seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaked_counter_a_leaked_place_and_a_dirty_slot_are_seen() {
    for fault in ["counter", "place", "dirt"] {
        let mut rig = Rig::new(Database::sqlite()).await;
        let allocation = rig.active("a", 2).await;
        hold(&rig).await;
        match fault {
            "counter" => rig.store.sabotage("UPDATE nodes SET cpus_free = cpus_free - 1").await.unwrap(),
            "place" => {
                let made = rig.node.places[&allocation].clone();
                rig.node.places.insert(rig.world.id(), made);
            }
            _ => {
                rig.node.dirty.insert("node-1-gpu-7".to_owned(), allocation);
            }
        }
        let judged = tokio::spawn(async move { hold(&rig).await }).await;
        assert!(judged.is_err(), "a planted {fault} was not seen");
    }
}

/// The database itself refuses a state without evidence, and evidence that speaks of something else.
#[tokio::test(flavor = "multi_thread")]
async fn no_state_that_needs_evidence_can_be_written_without_it() {
    for database in Database::both() {
        let mut rig = Rig::new(database).await;
        let (allocation, _) = rig.create("a", 9, Some(100)).await;
        let other = rig.active("b", 1).await;
        let refused = [
            "UPDATE allocations SET state = 'active' WHERE active_witness_id IS NULL",
            "UPDATE allocations SET state = 'released' WHERE wiped_witness_id IS NULL",
            "UPDATE allocations SET active_witness_id = (SELECT id FROM witnesses LIMIT 1) WHERE active_witness_id IS NULL",
            "UPDATE allocations SET wiped_witness_id = active_witness_id WHERE active_witness_id IS NOT NULL",
            "UPDATE witnesses SET kind = 'attested', actor_id = 'somebody'",
            "UPDATE nodes SET retired_at = created_at",
            "UPDATE nodes SET cpus_free = -1",
            "UPDATE nodes SET gpus_free = gpus_total + 1",
            "INSERT INTO claims (id, slot_id, allocation_id, claimed_at)
             SELECT allocation_id, slot_id, allocation_id, claimed_at FROM claims LIMIT 1",
        ];
        for statement in refused {
            assert!(rig.store.sabotage(statement).await.is_err(), "{statement}");
        }
        let _ = (allocation, other);
    }
}
