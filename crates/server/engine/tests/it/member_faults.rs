//! Tests the invariants of members: each planted bug must be detected, by an invariant or by the database itself.

use jiff::SignedDuration;
use muster_db::Fault;
use muster_engine::member;
use muster_model::adapter::AdapterVerb;
use muster_model::member::MemberState;
use muster_model::operation::OperationState;
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::rig::Rig;

async fn seen(rig: Rig, what: &str) {
    let judged = tokio::spawn(async move { laws::hold(&rig).await }).await;
    assert!(judged.is_err(), "{what} was not seen");
}

/// A bug that omits a statement every time.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_left_out_is_seen() {
    for (statement, says) in [
        ("ADAPTER_STEP_CANCEL_OF", "a step that is offered for nobody"),
        ("NODE_PORT_FREE", "a port that leads nowhere"),
    ] {
        let mut rig = Rig::new(Database::sqlite()).await;
        let i = rig.instance("i", 1).await;
        let unit = rig.units(i).await[0];
        laws::hold(&rig).await;
        rig.store.faults().arm(Fault::Skip(statement));
        let operation = match statement {
            // No adapter ever leases it, and the owner cancels.
            "ADAPTER_STEP_CANCEL_OF" => {
                rig.adapter.silent = true;
                let (_, add) = rig.add(i).await;
                rig.pass(SignedDuration::from_secs(15)).await;
                let mut tx = rig.store.begin().await.unwrap();
                tx.operation_cancel(add, rig.env.now()).await.unwrap();
                tx.commit().await.unwrap();
                add
            }
            _ => rig.member_op(&member::REMOVE, unit, json!({"force": false})).await,
        };
        assert!(rig.drive(operation).await.state.is_final());
        assert!(rig.store.faults().struck() > 0, "{statement} was never left out");
        rig.store.faults().clear();
        seen(rig, says).await;
    }
}

/// Without a stored evidence row no member becomes active, drained or removed: the database rejects it.
#[tokio::test(flavor = "multi_thread")]
async fn without_evidence_nothing_changes() {
    for database in Database::both() {
        let mut rig = Rig::new(database).await;
        let i = rig.instance("i", 1).await;
        let unit = rig.units(i).await[0];
        rig.store.faults().arm(Fault::Skip("WITNESS_INSERT"));
        let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
        for _ in 0..40 {
            rig.turn().await;
            rig.clock.advance(SignedDuration::from_millis(500));
        }
        assert!(rig.store.faults().struck() > 0);
        assert_eq!(rig.member(unit).await.state, MemberState::Draining);
        assert!(!rig.operation(drain).await.state.is_final());
        rig.store.faults().clear();
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        assert_eq!(rig.drive(drain).await.state, OperationState::Succeeded);
        laws::hold(&rig).await;
    }
}

/// An operation's locks are released with it, or it does not end: the database enforces both together.
#[tokio::test(flavor = "multi_thread")]
async fn ended_operation_holds_no_locks() {
    for database in Database::both() {
        let mut rig = Rig::new(database).await;
        let i = rig.instance("i", 1).await;
        let unit = rig.units(i).await[0];
        rig.store.faults().arm(Fault::Skip("LOCK_END"));
        let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
        for _ in 0..40 {
            rig.turn().await;
            rig.clock.advance(SignedDuration::from_millis(500));
        }
        assert!(rig.store.faults().struck() > 0);
        assert!(!rig.operation(drain).await.state.is_final());
        rig.store.faults().clear();
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        assert_eq!(rig.drive(drain).await.state, OperationState::Succeeded);
        laws::hold(&rig).await;
    }
}

/// Likewise for inconsistent rows, or faults on the node.
#[tokio::test(flavor = "multi_thread")]
async fn inconsistent_rows_and_node_state_are_detected() {
    for (planted, says) in [
        (
            "UPDATE instance_components SET desired = desired + 1 WHERE key = 'unit'",
            "one that is wanted and is not there",
        ),
        (
            "UPDATE members SET incarnation = incarnation + 1 WHERE component_key = 'unit'",
            "evidence of another incarnation",
        ),
        (
            "UPDATE members SET cell_id = NULL, state = 'draining' WHERE component_key = 'unit'",
            "a cell that nobody knows",
        ),
        ("cell", "a cell on the node that no row knows"),
        ("files", "files of a cell that is gone"),
    ] {
        let mut rig = Rig::new(Database::sqlite()).await;
        let i = rig.instance("i", 2).await;
        let unit = rig.units(i).await[0];
        let cell = rig.member(unit).await.cell_id.unwrap();
        let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
        assert_eq!(rig.drive(remove).await.state, OperationState::Succeeded);
        laws::hold(&rig).await;
        match planted {
            "cell" => {
                let place = *rig.node.sandboxes.keys().next().unwrap();
                rig.node.cells.insert(cell, (place, 1));
            }
            "files" => drop(rig.node.files.insert(cell, Default::default())),
            statement => rig.store.sabotage(statement).await.unwrap(),
        }
        seen(rig, says).await;
    }
}

/// A member is active, drained or removed only with evidence of its own: every attempt to bypass the engine is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn member_state_requires_evidence_of_its_own() {
    for database in Database::both() {
        let mut rig = Rig::new(database).await;
        let i = rig.instance("i", 1).await;
        rig.adapter.lies.insert(AdapterVerb::Join);
        let (_, add) = rig.add(i).await;
        assert_eq!(rig.drive(add).await.state, OperationState::Blocked);
        for statement in [
            "UPDATE members SET state = 'active' WHERE state = 'joining'",
            "UPDATE members SET state = 'active', app_version_id = (SELECT app_version_id FROM instances LIMIT 1),
                active_witness_id = (SELECT active_witness_id FROM members WHERE active_witness_id IS NOT NULL LIMIT 1)
             WHERE state = 'joining'",
            "UPDATE members SET state = 'drained' WHERE state = 'active'",
            "UPDATE members SET state = 'drained', drained_witness_id = active_witness_id WHERE state = 'active'",
            "UPDATE members SET state = 'removed' WHERE state = 'active'",
            "UPDATE members SET state = 'removed', removed_witness_id = active_witness_id WHERE state = 'active'",
            "UPDATE instances SET state = 'stopped'",
            "UPDATE instances SET state = 'stopped', stopped_witness_id = running_witness_id",
        ] {
            assert!(rig.store.sabotage(statement).await.is_err(), "{statement}");
        }
    }
}
