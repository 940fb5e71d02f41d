//! Assessments of health that run while a report comes in. Forced on PostgreSQL, where the rows of an instance are locked one
//! by one; SQLite has one writer.

use jiff::SignedDuration;
use muster_model::assess::AdapterReport;
use muster_model::instance::Health;
use muster_testkit::Database;

use crate::desk::Desk;
use crate::rig::Rig;

/// An assessment reads the members once before it takes the lock, to find out whether it is needed. The report that is
/// committed while it waits for the lock must count.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_comes_while_an_assessment_waits_for_the_lock_counts() {
    let mut rig = Rig::new(Database::postgres()).await;
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let (desk, now) = (Desk::new(&rig).await, rig.env.now());
    rig.store.heartbeat_write(&[rig.node.id], &[rig.node.id], now).await.unwrap();
    let incarnation = rig.member(unit).await.incarnation;
    let report = |health| AdapterReport { incarnation, health, message: Some("reported".to_owned()) };
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.member_report(unit, &report(Health::Healthy), now).await.unwrap());
    // It is due, and its adapter is not silent.
    let (due, silent_at) = (now - SignedDuration::from_secs(1), now + SignedDuration::from_hours(1));
    tx.instance_assessed(i, Some(due), Some(silent_at)).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.instance_hold(i).await.unwrap().is_some());
    let meanwhile = async {
        rig.database.until_a_session_waits_for_a_lock().await;
        assert!(tx.member_report(unit, &report(Health::Unhealthy), now).await.unwrap());
        tx.commit().await.unwrap();
    };
    tokio::join!(desk.assess(i), meanwhile);
    let member = rig.member(unit).await;
    assert_eq!(
        (member.health, member.health_message.as_deref()),
        (Health::Unhealthy, Some("reported")),
        "the assessment used what it had read before it got the lock"
    );
}
