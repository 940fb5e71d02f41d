//! Invariants at the end of every story, checked against the node's own journal and by plain counting.

use std::collections::BTreeSet;

use muster_db::{AdapterStepFilter, AllocationFilter, CellFilter, InstanceFilter, MemberFilter, Page};
use muster_ids::TypedId as _;
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::cell::{Cell, CellState};
use muster_model::instance::InstanceState;
use muster_model::member::{Member, MemberState};
use muster_model::node::{Capacity, SlotState};
use muster_model::witness::Transition;
use muster_testkit::Database;

use crate::node::Node;
use crate::rig::Rig;

/// Checks the invariants on the database and the nodes.
pub(crate) async fn hold(rig: &Rig) {
    let page = Page { after: uuid::Uuid::nil(), size: 10_000 };
    let every = muster_model::LabelSelector::parse("").unwrap();
    let all = rig.store.allocation_list(page, &every, AllocationFilter::default()).await.unwrap();
    let cells = rig.store.cell_list(page, &every, rig.project.id, CellFilter::default()).await.unwrap();
    for node in [Some(&rig.node), rig.far.as_ref()].into_iter().flatten() {
        hold_on(rig, node, &all, &cells).await;
    }
    for cell in cells.iter().filter(|cell| cell.state.is_final()) {
        assert_eq!(rig.store.node_port_of(cell.id).await.unwrap(), [], "{} is over and has ports", cell.id);
    }
    hold_members(rig, &all, &cells).await;

    // The used quota equals the living allocations.
    let quota = rig.store.quota_lookup(rig.project.id).await.unwrap();
    let living: Vec<_> = all.iter().filter(|allocation| !allocation.state.is_final()).collect();
    assert_eq!(quota.used_allocations, i64::try_from(living.len()).unwrap());
    let promised = |amount: fn(&Capacity) -> i64| living.iter().map(|a| amount(&a.capacity)).sum::<i64>();
    assert_eq!(quota.used.gpus, promised(|capacity| capacity.gpus));
    assert_eq!(quota.used.cpus, promised(|capacity| capacity.cpus));
    assert_eq!(quota.used.disk_mb, promised(|capacity| capacity.disk_mb));
}

async fn hold_on(rig: &Rig, on: &Node, every: &[Allocation], cells: &[Cell]) {
    assert_eq!(on.violations, Vec::<String>::new());
    let node = rig.store.node_lookup(on.id).await.unwrap().unwrap();
    let all: Vec<_> = every.iter().filter(|allocation| allocation.node_id == Some(on.id)).collect();
    let on_node: Vec<_> = all.iter().filter(|allocation| allocation.held != Capacity::default()).collect();

    // Counters: free and held add up to the total.
    let sum =
        |amount: fn(&Capacity) -> i64| on_node.iter().map(|allocation| amount(&allocation.held)).sum::<i64>();
    assert_eq!(node.free.cpus + sum(|held| held.cpus), node.total.cpus);
    assert_eq!(node.free.memory_mb + sum(|held| held.memory_mb), node.total.memory_mb);
    assert_eq!(node.free.disk_mb + sum(|held| held.disk_mb), node.total.disk_mb);
    assert_eq!(node.holders, i64::try_from(on_node.len()).unwrap());

    // Slots: each is claimed by an allocation with that many GPUs, or free, or quarantined.
    let slots = rig.store.slot_list(on.id).await.unwrap();
    let free = slots.iter().filter(|slot| slot.allocation_id.is_none() && slot.state == SlotState::Approved);
    assert_eq!(node.free.gpus, i64::try_from(free.count()).unwrap());
    for allocation in &on_node {
        let claimed = slots.iter().filter(|slot| slot.allocation_id == Some(allocation.id)).count();
        assert_eq!(allocation.held.gpus, i64::try_from(claimed).unwrap());
    }

    // The node has exactly the sandboxes of the active allocations, with the same devices.
    let active: BTreeSet<_> =
        all.iter().filter(|allocation| allocation.state == AllocationState::Active).map(|a| a.id).collect();
    let under_way = |id| all.iter().any(|a| a.id == id && !a.state.is_final());
    for id in &active {
        let made = on.sandboxes.get(id).unwrap_or_else(|| panic!("{id} is active and has no place"));
        let devices: BTreeSet<String> = slots
            .iter()
            .filter(|slot| slot.allocation_id == Some(*id))
            .map(|slot| slot.device.clone())
            .collect();
        assert_eq!(made.devices, devices);
    }
    for id in on.sandboxes.keys() {
        assert!(under_way(*id), "{id} is over and still has a place");
    }

    // The node has exactly the running cells, of the same incarnations; nothing is left of those that are gone.
    for cell in cells.iter().filter(|cell| cell.node_id == on.id) {
        let there = on.cells.get(&cell.id).map(|(_, incarnation)| *incarnation);
        match cell.state {
            CellState::Running => assert_eq!(there, Some(cell.incarnation), "{} runs", cell.id),
            CellState::Destroyed | CellState::Failed => {
                assert_eq!(there, None, "{} is {} and still there", cell.id, cell.state);
                assert!(!on.files.contains_key(&cell.id), "{} left files", cell.id);
            }
            _ => {}
        }
    }
    assert!(on.cells.keys().all(|id| cells.iter().any(|cell| cell.id == *id && !cell.state.is_final())));

    // No claimable slot is dirty.
    for slot in slots.iter().filter(|slot| slot.allocation_id.is_none() && slot.state == SlotState::Approved)
    {
        assert!(!on.dirty.contains_key(&slot.device), "{} is free and not wiped", slot.device);
    }
}

/// Checks the invariants of members and adapter steps.
async fn hold_members(rig: &Rig, allocations: &[Allocation], cells: &[Cell]) {
    let page = Page { after: uuid::Uuid::nil(), size: 10_000 };
    let every = muster_model::LabelSelector::parse("").unwrap();
    let instances =
        rig.store.instance_list(page, &every, rig.project.id, InstanceFilter::default()).await.unwrap();
    for instance in &instances {
        let mut members = rig.store.member_living(instance.id).await.unwrap();
        let removed = MemberFilter { component: None, state: Some(MemberState::Removed) };
        members.extend(rig.store.member_list(page, instance.id, removed).await.unwrap());
        for member in &members {
            hold_member(rig, member, allocations, cells).await;
        }
        let network = rig.store.network_lookup(instance.network_id).await.unwrap().unwrap();
        let shared = rig.shares().contains(&network.id);
        // Shared directories are recorded until they are verified as removed.
        assert!(!shared || network.shared_files.is_some(), "what nobody knows of is shared");
        if instance.state == InstanceState::Stopped {
            // A later instance of the same name has the same network, and its directories.
            let later = instances.iter().any(|other| {
                other.network_id == instance.network_id && other.state != InstanceState::Stopped
            });
            assert!(later || !shared && network.shared_files.is_none(), "what its members shared is left");
            assert!(members.iter().all(|member| member.state == MemberState::Removed), "it has members left");
        }
        // The desired count equals the members that work, or worked and were never to be removed.
        if instance.state == InstanceState::Running {
            for component in rig.store.component_list(instance.id).await.unwrap() {
                let counts = members.iter().filter(|member| {
                    member.component_key == component.key
                        && match member.state {
                            MemberState::Removing | MemberState::Removed => false,
                            MemberState::Failed => member.active_witness_id.is_some(),
                            _ => true,
                        }
                });
                assert_eq!(component.desired, i64::try_from(counts.count()).unwrap(), "{}", component.key);
            }
        }
    }
    // Every cell and allocation made for a member is referenced by one.
    for cell in cells.iter().filter(|cell| cell.member_id.is_some() && !cell.state.is_final()) {
        let member = rig.member(cell.member_id.unwrap()).await;
        assert_eq!(member.cell_id, Some(cell.id), "a cell that no member knows");
    }
    // No open adapter step is without a waiting operation.
    let steps =
        rig.store.adapter_step_list(page, rig.project.id, AdapterStepFilter::default()).await.unwrap();
    for step in steps.iter().filter(|step| !step.state.is_final()) {
        let operation = rig.operation(step.operation_id.unwrap()).await;
        assert!(!operation.state.is_final(), "{} is {} and its operation has ended", step.key, step.state);
    }
}

async fn hold_member(rig: &Rig, member: &Member, allocations: &[Allocation], cells: &[Cell]) {
    // Each state that needs evidence has it, of this very incarnation.
    let evidence = match member.state {
        MemberState::Active => Some((member.active_witness_id, Transition::Active)),
        MemberState::Drained => Some((member.drained_witness_id, Transition::Drained)),
        MemberState::Removed => Some((member.removed_witness_id, Transition::Removed)),
        _ => None,
    };
    if let Some((id, transition)) = evidence {
        let seen = rig.store.witness_lookup(id.unwrap()).await.unwrap().unwrap();
        assert_eq!(
            (seen.transition, seen.subject_id, seen.incarnation),
            (transition, member.id.uuid(), member.incarnation),
            "{} is {} by other evidence",
            member.name,
            member.state
        );
        let checked = seen.checked.as_array().map_or(0, Vec::len);
        assert!(checked > 0, "{} is {} and nothing was looked at", member.name, member.state);
    }
    let cell = cells.iter().find(|cell| Some(cell.id) == member.cell_id);
    let allocation = allocations.iter().find(|held| Some(held.id) == member.allocation_id);
    match member.state {
        MemberState::Active | MemberState::Drained => {
            let cell = cell.unwrap();
            assert_eq!((cell.state, cell.incarnation), (CellState::Running, member.incarnation));
        }
        MemberState::Removed => {
            assert!(cell.is_none_or(|cell| cell.state.is_final()), "{} left its cell", member.name);
            if member.allocation_made {
                assert!(allocation.unwrap().state.is_final(), "{} left its allocation", member.name);
            }
        }
        // A member that never worked has left nothing.
        MemberState::Failed if member.active_witness_id.is_none() => {
            assert!(cell.is_none_or(|cell| cell.state.is_final()), "{} left its cell", member.name);
            if member.allocation_made {
                assert!(allocation.unwrap().state.is_final(), "{} left its allocation", member.name);
            }
        }
        _ => {}
    }
}

/// Tests the invariants themselves: each planted fault must be detected.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaked_counter_a_leaked_place_and_a_dirty_slot_are_seen() {
    for fault in ["counter", "place", "dirt"] {
        let mut rig = Rig::new(Database::sqlite()).await;
        let allocation = rig.active("a", 2).await;
        hold(&rig).await;
        match fault {
            "counter" => rig.store.sabotage("UPDATE nodes SET cpus_free = cpus_free - 1").await.unwrap(),
            "place" => {
                let made = rig.node.sandboxes[&allocation].clone();
                rig.node.sandboxes.insert(rig.env.id(), made);
            }
            _ => {
                rig.node.dirty.insert("node-1-gpu-7".to_owned(), allocation);
            }
        }
        let judged = tokio::spawn(async move { hold(&rig).await }).await;
        assert!(judged.is_err(), "a planted {fault} was not seen");
    }
}

/// The database itself rejects a state without evidence, and evidence for another subject.
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
