//! Guards, broken on purpose. A test that still passes then would prove nothing.

use muster_db::{Fault, StoreError};
use muster_jobs::Sealer;
use muster_testkit::{Database, Fixture, Kit};

use crate::property;

async fn with_fixture(database: Database) -> (Kit, Fixture) {
    let kit = Kit::start(database, 1).await;
    let fixture = Fixture::build(&kit).await;
    (kit, fixture)
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotent_holds_and_notices_a_dropped_index() {
    for database in Database::both() {
        let (kit, fixture) = with_fixture(database).await;
        let token = fixture.token("tenant_admin");
        property::idempotent(&kit, token, 5, 8).await.expect("the promise holds");
        kit.store().sabotage("DROP INDEX idempotency_once").await.unwrap();
        let found = property::idempotent(&kit, token, 15, 8).await;
        found.expect_err("without its index the promise must be seen to break");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audited_holds_and_notices_a_lost_entry() {
    for database in Database::both() {
        let (kit, fixture) = with_fixture(database).await;
        let admin = fixture.client(&kit, "tenant_admin");
        property::audited(&kit, &admin, "acme", 5).await.expect("the promise holds");
        kit.store().faults().arm(Fault::Skip("OUTBOX_APPEND"));
        let other = fixture.client(&kit, "other_tenant_admin");
        let found = property::audited(&kit, &other, "globex", 5).await;
        found.expect_err("a command without its entry must be noticed");
        assert!(kit.store().faults().struck() > 0);
        kit.stop().await;
    }
}

/// Runs a round of a superseded sealer.
async fn fenced(kit: &Kit) -> property::Verdict {
    let platform = kit.servers[0].platform.clone();
    let mut first = Sealer::new(platform.clone());
    let lapse = "DELETE FROM leases WHERE name = 'sealer'";
    // The server's own sealer competes; either of them may lose the lease below and become the stale one.
    for _ in 0..200 {
        kit.store().sabotage(lapse).await.unwrap();
        if first.take_lease().await.unwrap() {
            break;
        }
    }
    kit.store()
        .sabotage("UPDATE leases SET generation = generation + 1 WHERE name = 'sealer'")
        .await
        .unwrap();
    match first.round().await {
        Err(StoreError::Fenced) => Ok(()),
        other => Err(format!("a stale sealer was not refused: {other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fenced_holds_and_notices_a_missing_fence() {
    for database in Database::both() {
        let (kit, _) = with_fixture(database).await;
        fenced(&kit).await.expect("the promise holds");
        kit.store().faults().arm(Fault::Skip("LEASE_EXTEND"));
        fenced(&kit).await.expect_err("a stale sealer that is let through must be noticed");
        kit.store().faults().clear();
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gapless_holds_and_notices_a_second_sealer() {
    let (kit, fixture) = with_fixture(Database::postgres()).await;
    let admin = fixture.client(&kit, "tenant_admin");
    property::gapless(&kit, &admin, "acme", 30, "a").await.expect("the promise holds");
    // Without the fence and the constraints behind it, two sealers assign the same numbers.
    let constraints = "ALTER TABLE events DROP CONSTRAINT events_pkey; DROP INDEX events_of_tenant; \
                       DROP INDEX events_of_project; ALTER TABLE audit_entries DROP CONSTRAINT audit_entries_pkey";
    kit.store().sabotage(constraints).await.unwrap();
    kit.store().faults().arm(Fault::Skip("LEASE_EXTEND"));
    let mut rogue = Sealer::new(kit.servers[0].platform.clone());
    kit.store().sabotage("DELETE FROM leases WHERE name = 'sealer'").await.unwrap();
    assert!(rogue.take_lease().await.unwrap(), "the rogue sealer holds what it should not");
    let sealing = tokio::spawn(async move {
        for _ in 0..2000 {
            let _ = rogue.round().await;
            if !rogue.take_lease().await.unwrap_or(false) {
                tokio::task::yield_now().await;
            }
        }
    });
    let mut found = Ok(());
    for tag in ["b", "c", "d", "e", "f", "g", "h"] {
        found = property::gapless(&kit, &admin, "acme", 60, tag).await;
        if found.is_err() {
            break;
        }
    }
    sealing.abort();
    found.expect_err("two sealers at once must be noticed");
    kit.servers.into_iter().for_each(|server| server.crash());
}
