//! Lock order between operations on the same subject: no cycle of waiting operations.

use muster_engine::{instance, member, members};
use muster_model::member::MemberState;
use muster_model::operation::OperationState;
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::succeeds;
use crate::rig::Rig;

stories! {
    a_part_does_not_wait_for_who_came_after_the_whole
}

async fn a_part_does_not_wait_for_who_came_after_the_whole(rig: &mut Rig) {
    let i = rig.instance("i", 3).await;
    let units = rig.units(i).await;
    // Two of three are open; the third starts later.
    rig.adapter.silent = true;
    let bulk = rig.members_op(&members::DRAIN, i, &units).await;
    rig.turn().await;
    let [from, to] = rig.catalog.versions;
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    let drain = rig.member_op(&member::DRAIN, units[2], json!({})).await;
    rig.turn().await;
    for (waits, before) in [(upgrade, bulk), (drain, upgrade)] {
        let waits = rig.operation(waits).await;
        assert_eq!(waits.state, OperationState::Accepted);
        assert!(waits.waiting.unwrap().contains(&before.to_string()));
    }
    rig.adapter.silent = false;
    succeeds(rig, bulk).await;
    assert_eq!(rig.member(units[2]).await.state, MemberState::Drained);
    succeeds(rig, upgrade).await;
    assert!(rig.drive(drain).await.state.is_final());
}
