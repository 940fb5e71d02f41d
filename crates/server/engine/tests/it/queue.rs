//! Waiting in the queue.

use muster_engine::allocation::RELEASE;
use muster_model::allocation::{AllocationState, FailureReason};
use muster_model::operation::OperationState;
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn released_capacity_goes_to_equal_requests_in_queue_order() {
    for database in Database::both() {
        let mut rig = Rig::new(database).await;
        let first = rig.active("first", 8).await;
        let (second, second_op) = rig.create("second", 4, Some(1000)).await;
        rig.engine.round().await.unwrap();
        let (third, third_op) = rig.create("third", 4, Some(1000)).await;
        let (fourth, fourth_op) = rig.create("fourth", 4, Some(1000)).await;
        rig.engine.round().await.unwrap();
        assert_eq!(rig.allocation(second).await.state, AllocationState::Placing);
        assert_eq!(rig.store.queue_position(third).await.unwrap(), 1);
        assert_eq!(rig.store.queue_position(fourth).await.unwrap(), 2);
        let release = rig.ask(&RELEASE, "allocation", first, json!({})).await;
        rig.drive(release).await;
        assert_eq!(rig.drive(second_op).await.state, OperationState::Succeeded);
        assert_eq!(rig.drive(third_op).await.state, OperationState::Succeeded);
        assert_eq!(rig.allocation(fourth).await.state, AllocationState::Placing, "it still waits");
        laws::hold(&rig).await;
        let _ = fourth_op;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_request_fails_with_wait_expired_at_its_deadline() {
    for database in Database::both() {
        let mut rig = Rig::new(database).await;
        rig.active("first", 8).await;
        let (second, operation) = rig.create("second", 1, Some(30)).await;
        assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
        assert_eq!(rig.allocation(second).await.reason, Some(FailureReason::WaitExpired));
        laws::hold(&rig).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_one_may_pass_a_large_one_that_does_not_fit_anyway() {
    let mut rig = Rig::new(Database::sqlite()).await;
    rig.active("first", 4).await;
    let (large, _) = rig.create("large", 8, Some(1000)).await;
    rig.engine.round().await.unwrap();
    let small = rig.active("small", 2).await;
    assert_eq!(rig.allocation(large).await.state, AllocationState::Placing);
    assert_eq!(rig.allocation(small).await.state, AllocationState::Active);
}
