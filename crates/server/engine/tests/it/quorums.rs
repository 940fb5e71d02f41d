//! Operations on many members keep each component's quorum.

use jiff::SignedDuration;
use muster_engine::instance;
use muster_engine::node::DRAIN;
use muster_ids::{InstanceId, MemberId, OperationId};
use muster_model::assess::Assessment;
use muster_model::instance::Health;
use muster_model::member::MemberState;
use muster_model::operation::OperationState;
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::{cordon, succeeds};
use crate::rig::Rig;

stories! {
    an_upgrade_takes_out_no_more_than_the_quorum_allows
    an_upgrade_begins_with_those_that_do_not_work
    a_node_that_is_emptied_leaves_the_quorum_at_work
}

/// Returns the number of working units.
async fn at_work(rig: &Rig, i: InstanceId) -> usize {
    let living = rig.store.member_living(i).await.unwrap();
    living.iter().filter(|member| member.component_key == "unit" && member.works()).count()
}

/// Drives it, and returns the smallest number of working units at any time.
async fn fewest(rig: &mut Rig, i: InstanceId, operation: OperationId) -> usize {
    let mut fewest = usize::MAX;
    while !rig.operation(operation).await.state.is_final() {
        assert_ne!(rig.operation(operation).await.state, OperationState::Blocked);
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_millis(500));
        }
        fewest = fewest.min(at_work(rig, i).await);
    }
    fewest
}

async fn break_one(rig: &Rig, id: MemberId) {
    let member = rig.member(id).await;
    let mut tx = rig.store.begin().await.unwrap();
    let now = rig.env.now();
    let broken = Assessment::new(Health::Unhealthy, Some("broken"), now);
    assert!(tx.member_health(id, member.incarnation, &broken, now).await.unwrap());
    tx.commit().await.unwrap();
}

async fn to_steady(rig: &Rig, i: InstanceId) -> OperationId {
    let (from, to) = (rig.catalog.versions[0], rig.catalog.steady);
    rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await
}

async fn an_upgrade_takes_out_no_more_than_the_quorum_allows(rig: &mut Rig) {
    let i = rig.instance("i", 3).await;
    let upgrade = to_steady(rig, i).await;
    assert_eq!(fewest(rig, i, upgrade).await, 2, "its pace is two, and its quorum two of three");
    assert_eq!(rig.operation(upgrade).await.state, OperationState::Succeeded);
}

async fn an_upgrade_begins_with_those_that_do_not_work(rig: &mut Rig) {
    let i = rig.instance("i", 3).await;
    let units = rig.units(i).await;
    break_one(rig, units[2]).await;
    let upgrade = to_steady(rig, i).await;
    assert_eq!(fewest(rig, i, upgrade).await, 2);
    assert_eq!(rig.operation(upgrade).await.state, OperationState::Succeeded);
    assert_eq!(at_work(rig, i).await, 3);
}

async fn a_node_that_is_emptied_leaves_the_quorum_at_work(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let upgrade = to_steady(rig, i).await;
    succeeds(rig, upgrade).await;
    rig.add_far(4, 16).await;
    cordon(rig, true).await;
    for _ in 0..3 {
        let (_, add) = rig.add(i).await;
        succeeds(rig, add).await;
    }
    cordon(rig, false).await;
    let units = rig.units(i).await;
    break_one(rig, units[2]).await;
    let far = rig.far.as_ref().unwrap().id;
    let drain = rig.ask(&DRAIN, "node", far, json!({"force": true})).await;
    assert_eq!(fewest(rig, i, drain).await, 2);
    assert_eq!(rig.operation(drain).await.state, OperationState::Succeeded);
    for old in units {
        assert_eq!(rig.member(old).await.state, MemberState::Removed);
    }
    assert_eq!(at_work(rig, i).await, 3);
}
