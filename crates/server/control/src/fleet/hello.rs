//! An agent starts a session for its node and reports the node's contents.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use muster_db::{CellReport, StoreError};
use muster_model::allocation::Allocation;
use muster_model::cell::{Cell, CellState};
use muster_model::event::EventType;
use muster_model::node::Node;
use muster_wire::cell::CellRef;
use muster_wire::difference::{Change, difference};
use muster_wire::inventory::Inventory;
use muster_wire::task::SandboxRef;
use muster_wire::wire::{Hello, Welcome};
use serde_json::{Value, json};

use super::address::{report_address, validate_address};
use super::admit::{Admitted, retired};
use super::{slots, tell};
use crate::health::store_report;
use crate::operation::resume_blocked;
use crate::{Cx, Error, Result};

/// Maximum number of changes and sandboxes in an event.
const TOLD: usize = 50;

/// Returns the orphaned sandboxes: of no live allocation on this node, or stale copies of another incarnation.
fn stale_allocations(sandboxes: &[SandboxRef], live: &[Allocation]) -> Vec<SandboxRef> {
    let known = |place: &&SandboxRef| {
        live.iter().any(|held| held.id == place.allocation_id && held.incarnation == place.incarnation)
    };
    let stale_allocations: BTreeSet<&SandboxRef> = sandboxes.iter().filter(|place| !known(place)).collect();
    stale_allocations.into_iter().cloned().collect()
}

/// Returns the orphaned cells in valid sandboxes: of no live cell there, or stale copies of another incarnation.
fn stale_cells(found: &[CellRef], sandboxes: &[SandboxRef], live: &[Cell]) -> Vec<CellRef> {
    let known = |place: &CellRef| {
        live.iter().any(|cell| {
            cell.id == place.cell_id
                && cell.allocation_id == place.allocation_id
                && cell.incarnation == place.incarnation
        })
    };
    // Removing a sandbox removes its cells.
    let going = |cell: &CellRef| sandboxes.iter().any(|place| place.allocation_id == cell.allocation_id);
    let stale_allocations: BTreeSet<&CellRef> =
        found.iter().filter(|cell| !known(cell) && !going(cell)).collect();
    stale_allocations.into_iter().cloned().collect()
}

/// A cell that started more recently may be missing from the agent's list.
const SETTLED: SignedDuration = SignedDuration::from_secs(30);

/// Cells that should run but are missing on the node.
struct Missing<'c> {
    /// They are not there. After a reboot, none can have started in the meantime.
    ended: Vec<&'c Cell>,
    /// They may have started after the agent made its list: the reports of its session decide.
    unsure: Vec<&'c Cell>,
}

fn missing_cells<'c>(found: &[CellRef], live: &'c [Cell], rebooted: bool, now: Timestamp) -> Missing<'c> {
    let there = |cell: &Cell| {
        found.iter().any(|place| place.cell_id == cell.id && place.incarnation == cell.incarnation)
    };
    let settled = |cell: &&Cell| rebooted || now.duration_since(cell.updated_at) > SETTLED;
    let missing = live.iter().filter(|cell| cell.state == CellState::Running && !there(cell));
    let (ended, unsure) = missing.partition(settled);
    Missing { ended, unsure }
}

/// Reports whether the machine rebooted since its agent's last session.
fn was_rebooted(node: &Node, found: &Inventory) -> bool {
    let before = node.inventory["boot_id"].as_str().unwrap_or_default();
    !before.is_empty() && !found.boot_id.is_empty() && before != found.boot_id
}

fn not_there(cell: &Cell, boot_id: &str) -> CellReport {
    CellReport {
        cell_id: cell.id,
        incarnation: cell.incarnation,
        alive: false,
        services: json!([]),
        message: Some("its node no longer has it".to_owned()),
        boot_id: boot_id.to_owned(),
    }
}

/// Handles `hello`.
pub async fn hello(cx: &Cx, agent: &Admitted, body: Hello) -> Result<Welcome> {
    let platform = &cx.platform;
    let store = &platform.store;
    validate_address(body.address.as_deref())?;
    let node = store.node_lookup(agent.node).await?.ok_or_else(retired)?;
    // A sandbox is created only after its allocation is committed. So data read before the transaction may take a sandbox
    // that was just orphaned for a live one, which the engine destroys anyway, but never a live one for an orphan.
    let live = store.allocation_live_on(node.id).await?;
    let found = slots::discovered(&platform.env, node.id, &body.inventory, &store.slot_list(node.id).await?);
    let cells = store.cell_live_on(node.id).await?;
    let stale_allocations = stale_allocations(&body.sandboxes, &live);
    let stale_cells = stale_cells(&body.cells, &stale_allocations, &cells);
    let digest = body.inventory.hardware_digest();
    let mut events: Vec<(EventType, Value)> = Vec::new();
    if !stale_cells.is_empty() {
        let shown: Vec<&CellRef> = stale_cells.iter().take(TOLD).collect();
        events.push((EventType::NodeOrphansFound, json!({"count": stale_cells.len(), "cells": shown})));
    }
    if !stale_allocations.is_empty() {
        let shown: Vec<&SandboxRef> = stale_allocations.iter().take(TOLD).collect();
        events.push((
            EventType::NodeOrphansFound,
            json!({"count": stale_allocations.len(), "sandboxes": shown}),
        ));
    }
    events.extend(inventory_changed(&node, &body.inventory, &digest));
    let clean = stale_allocations.is_empty() && stale_cells.is_empty();

    let rebooted = was_rebooted(&node, &body.inventory);
    if rebooted {
        let ran = cells.iter().filter(|cell| cell.state == CellState::Running).count();
        events.push((EventType::NodeRebooted, json!({"name": node.name, "cells": ran})));
    }
    let missing = missing_cells(&body.cells, &cells, rebooted, cx.now);
    let mut taken_up = 0;
    let mut tx = store.begin().await?;
    let written = async {
        let inventory = json!(body.inventory);
        let session = tx.node_hello(node.id, &body.agent_version, inventory, &digest, clean, cx.now).await?;
        // In the same transaction as the return: the next heartbeat flush would be too late for the loss detection.
        tx.heartbeat_note(&[node.id], cx.now).await?;
        tx.task_requeue(node.id).await?;
        if let Some(address) = &body.address
            && let Some(changed) = report_address(cx, &mut tx, &node, address).await?
        {
            // First, because the audit entry contains the first event.
            events.insert(0, changed);
        }
        tx.node_shared_files(node.id, body.shared_files.as_deref()).await?;
        let frees = slots::write(&mut tx, cx, &node, "node.hello", &body.inventory, &found).await?;
        if clean && tx.node_back(node.id, cx.now).await? {
            let since = node.unreachable_since;
            events.push((EventType::NodeReachable, json!({"name": node.name, "unreachable_since": since})));
            // Cells that were fenced off and survive are announced to their neighbours again.
            if tx.cell_let_in_on(node.id, cx.now).await? {
                tx.bump_desired_node(node.id).await?;
            }
            let waits = tx.operation_blocked_on(node.id).await?;
            taken_up = resume_blocked(cx, &mut tx, waits).await?;
        }
        if !events.is_empty() {
            let news = tell::News {
                actor: tell::agent(node.id, &node.name),
                action: "node.hello",
                target: tell::target(node.id, &node.name),
                subject: tell::subject(node.id),
                events,
                correlation_id: &cx.correlation_id,
                at: cx.now,
            };
            platform.outbox_append(&mut tx, news).await?;
        }
        for cell in &missing.unsure {
            // A report of an earlier session must not count as confirmed by this one.
            tx.cell_observation_delete(cell.id).await?;
        }
        for cell in &missing.ended {
            store_report(cx, &mut tx, node.id, not_there(cell, &body.inventory.boot_id)).await?;
        }
        // Last: operations are locked before instances. Instances on this node are assessed again with the new reports.
        tx.instances_assess_on(node.id, cx.now).await?;
        Ok((session, frees))
    };
    let (session, frees) = match written.await {
        Ok(written) => written,
        Err(error) => {
            tx.rollback().await;
            return Err(not_ours(error));
        }
    };
    tx.commit().await?;
    welcomed(cx, &node, session, stale_allocations.len() + stale_cells.len());
    if frees || taken_up > 0 {
        platform.engine.wake.notify_one();
    }
    Ok(Welcome {
        session,
        stale_allocations,
        stale_cells,
        heartbeat_seconds: platform.options.heartbeat.as_secs(),
    })
}

fn welcomed(cx: &Cx, node: &Node, session: i64, stale_allocations: usize) {
    let platform = &cx.platform;
    platform.sealer_wake.notify_one();
    platform.fleet.hear(node.id);
    // Ends a poll of the previous agent.
    platform.fleet.wake(node.id);
    if stale_allocations == 0 {
        tracing::info!(node = %node.id, name = node.name, session, "an agent sent hello");
    } else {
        platform.metrics.stale_copies.inc_by(stale_allocations as u64);
        tracing::warn!(node = %node.id, name = node.name, session, stale_allocations, "orphans on a node");
    }
}

/// Maps a store error. `Fenced` on a node's row means that it was retired meanwhile.
pub(super) fn not_ours(error: StoreError) -> Error {
    if matches!(error, StoreError::Fenced) { retired() } else { Error::from(error) }
}

/// Returns an event for hardware that differs from the approved inventory, unless the difference was reported before.
pub(super) fn inventory_changed(node: &Node, found: &Inventory, digest: &str) -> Option<(EventType, Value)> {
    let approved = node.approved_digest.as_deref()?;
    if approved == digest || node.inventory_digest == digest {
        return None;
    }
    let before: Option<Inventory> =
        node.approved_inventory.clone().and_then(|approved| serde_json::from_value(approved).ok());
    let changes = before.map(|before| difference(&before, found)).unwrap_or_default();
    let shown: Vec<&Change> = changes.iter().take(TOLD).collect();
    let told = json!({"name": node.name, "count": changes.len(), "changes": shown});
    Some((EventType::NodeInventoryChanged, told))
}

#[cfg(test)]
mod tests {
    use muster_ids::{AllocationId, CellId, Env};
    use muster_model::Labels;
    use muster_model::node::Capacity;

    use super::*;

    fn held(env: &Env) -> Allocation {
        let asked = Allocation::requested(env.id(), env.id(), env.id(), "a", Capacity::default(), env.now());
        Allocation { incarnation: 2, ..asked }
    }

    fn cell(env: &Env, allocation: &Allocation) -> Cell {
        Cell {
            id: env.id(),
            tenant_id: allocation.tenant_id,
            project_id: allocation.project_id,
            allocation_id: allocation.id,
            node_id: env.id(),
            network_id: env.id(),
            name: "shell".to_owned(),
            labels: Labels::new(),
            spec: json!({}),
            people: false,
            artifact_id: None,
            member_id: None,
            fenced: false,
            host: 2,
            state: CellState::Running,
            incarnation: 3,
            reason: None,
            message: None,
            running_witness_id: None,
            destroyed_witness_id: None,
            operation_id: None,
            created_at: env.now(),
            updated_at: env.now(),
            version: 1,
        }
    }

    fn found(allocation_id: AllocationId, cell_id: CellId, incarnation: i64) -> CellRef {
        CellRef { allocation_id, cell_id, incarnation }
    }

    #[test]
    fn a_sandbox_without_an_allocation_or_of_another_incarnation_is_a_stale_copy() {
        let env = Env::for_tests(1);
        let live = held(&env);
        let place = |allocation_id, incarnation| SandboxRef { allocation_id, incarnation };
        let (own, older) = (place(live.id, 2), place(live.id, 1));
        let (newer, strange) = (place(live.id, 3), place(env.id(), 2));
        let all = [own, older.clone(), newer.clone(), strange.clone(), strange.clone()];
        let mut orphans_found = [older, newer, strange];
        orphans_found.sort();
        assert_eq!(stale_allocations(&all, &[live]), orphans_found);
    }

    #[test]
    fn a_cell_is_a_stale_copy_unless_it_is_the_live_one_of_that_sandbox() {
        let env = Env::for_tests(1);
        let allocation = held(&env);
        let live = cell(&env, &allocation);
        let elsewhere: AllocationId = env.id();
        let own = found(allocation.id, live.id, 3);
        assert_eq!(stale_cells(std::slice::from_ref(&own), &[], std::slice::from_ref(&live)), []);
        for stale_copy in [
            found(allocation.id, live.id, 2),
            found(allocation.id, live.id, 4),
            found(elsewhere, live.id, 3),
            found(allocation.id, env.id(), 3),
        ] {
            let all = [own.clone(), stale_copy.clone(), stale_copy.clone()];
            assert_eq!(stale_cells(&all, &[], std::slice::from_ref(&live)), [stale_copy]);
        }
    }

    #[test]
    fn a_running_cell_that_its_node_does_not_list_is_missing() {
        let env = Env::for_tests(1);
        let allocation = held(&env);
        let live = cell(&env, &allocation);
        let later = live.updated_at + SETTLED + SignedDuration::from_secs(1);
        let both = |found: &[CellRef], live: &Cell, rebooted, now| {
            let missing = missing_cells(found, std::slice::from_ref(live), rebooted, now);
            (missing.ended.len(), missing.unsure.len())
        };
        let missing = |found: &[CellRef], live: &Cell, rebooted, now| both(found, live, rebooted, now).0;
        assert_eq!(missing(&[found(allocation.id, live.id, 3)], &live, false, later), 0);
        assert_eq!(missing(&[], &live, false, later), 1);
        for other in [found(allocation.id, live.id, 2), found(allocation.id, env.id(), 3)] {
            assert_eq!(missing(&[other], &live, false, later), 1, "another incarnation or cell");
        }
        // It may have started after the agent made its list, but not before the machine did.
        assert_eq!(both(&[], &live, false, live.updated_at + SETTLED), (0, 1));
        assert_eq!(missing(&[], &live, true, live.updated_at), 1);
        for state in [CellState::Provisioning, CellState::Destroying] {
            assert_eq!(missing(&[], &Cell { state, ..live.clone() }, true, later), 0, "{state:?}");
        }

        let report = not_there(&live, "boot-2");
        assert_eq!((report.cell_id, report.incarnation, report.alive), (live.id, 3, false));
        assert_eq!(report.boot_id, "boot-2");
        assert!(report.message.is_some());
    }

    #[test]
    fn a_place_that_goes_takes_its_cells_along() {
        let env = Env::for_tests(1);
        let (going, staying): (AllocationId, AllocationId) = (env.id(), env.id());
        let all = [found(going, env.id(), 1), found(staying, env.id(), 1)];
        let sandboxes = [SandboxRef { allocation_id: going, incarnation: 1 }];
        assert_eq!(stale_cells(&all, &sandboxes, &[]), all[1..]);
    }
}
