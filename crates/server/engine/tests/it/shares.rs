//! Shared directories of an instance's members.

use muster_engine::node::AUDIT;
use muster_engine::{instance, member};
use muster_model::instance::InstanceState;
use muster_model::member::MemberFailure;
use muster_model::operation::OperationState;
use muster_testkit::Database;
use muster_wire::task::{NodeResource, NodeResourceKind};
use serde_json::json;

use crate::laws;
use crate::lost_nodes::back;
use crate::member_stories::{cordon, succeeds, why};
use crate::node::Wrong;
use crate::rig::Rig;
use crate::stories::retry;

stories! {
    shared_files_are_removed_after_the_members_and_verified
    member_is_refused_on_a_node_without_its_shared_files
    orphaned_shared_files_are_reported_and_never_removed
    a_decommission_goes_on_when_a_node_with_the_file_system_is_back
}

async fn shared_files_are_removed_after_the_members_and_verified(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let network = rig.app_instance(i).await.network_id;
    assert!(rig.shares().contains(&network));
    // Removed members leave them in place.
    let remove = rig.member_op(&member::REMOVE, rig.units(i).await[0], json!({"force": false})).await;
    succeeds(rig, remove).await;
    assert!(rig.shares().contains(&network));
    rig.node.wrong.push(Wrong::LeavesShare);
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    let blocked = rig.drive(stop).await;
    assert!(why(&blocked).contains("shared files of its members are left"), "{}", why(&blocked));
    assert!(rig.node.cells.is_empty(), "what cells have is not taken away from under them");
    assert_eq!(rig.app_instance(i).await.state, InstanceState::Stopping);
    retry(rig, stop).await;
    succeeds(rig, stop).await;
    let stopped = rig.app_instance(i).await.stopped_witness_id.unwrap();
    let witness = rig.store.witness_lookup(stopped).await.unwrap().unwrap();
    let seen = &witness.checked[2];
    assert_eq!((&seen["what"], &seen["left"]), (&json!("what its members shared"), &json!(0)), "{seen}");
    assert_eq!(seen["node_id"], json!(rig.node.id));
}

async fn member_is_refused_on_a_node_without_its_shared_files(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let far = rig.add_far(2, 8).await;
    cordon(rig, true).await;
    for (files, why) in
        [(None, "the node far shares no files"), (Some("others"), "another shared file system")]
    {
        let mut tx = rig.store.begin().await.unwrap();
        tx.node_shared_files(far, files).await.unwrap();
        tx.commit().await.unwrap();
        let (unit, add) = rig.add(i).await;
        let ended = rig.drive(add).await;
        assert_eq!(ended.state, OperationState::Failed, "{ended:#?}");
        let unit = rig.member(unit).await;
        assert_eq!(unit.failure_reason, Some(MemberFailure::ProvisionFailed));
        let message = unit.message.unwrap_or_default();
        assert!(message.contains(why) && message.contains("/common"), "{message}");
        assert!(rig.far.as_ref().unwrap().cells.is_empty());
    }
    let mut tx = rig.store.begin().await.unwrap();
    tx.node_shared_files(far, Some("files")).await.unwrap();
    tx.commit().await.unwrap();
    let (_, add) = rig.add(i).await;
    succeeds(rig, add).await;
    assert_eq!(rig.far.as_ref().unwrap().cells.len(), 1);
    // Any node with the file system can remove them.
    cordon(rig, false).await;
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
    assert!(rig.shares().is_empty());
}

async fn orphaned_shared_files_are_reported_and_never_removed(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let network = rig.app_instance(i).await.network_id;
    let share = |network_id| NodeResource {
        kind: NodeResourceKind::Share,
        name: "left".to_owned(),
        allocation_id: None,
        cell_id: None,
        network_id: Some(network_id),
    };
    // Directories in use, and those of another platform, are no differences. The simulated node lists no cells, which is
    // reported.
    rig.node.strays = vec![share(network), share(rig.env.id())];
    let audit = rig.ask(&AUDIT, "node", rig.node.id, json!({"repair": true})).await;
    let why = rig.drive(audit).await.message.unwrap_or_default();
    assert!(why.contains("i-unit-1") && !why.contains("left without a row"), "{why}");
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
    let audit = rig.ask(&AUDIT, "node", rig.node.id, json!({"repair": true})).await;
    let ended = rig.drive(audit).await;
    assert_eq!(ended.state, OperationState::Failed, "{ended:#?}");
    let why = ended.message.unwrap_or_default();
    assert!(why.contains("shared files of the cells of left are left without a row"), "{why}");
    assert_eq!(rig.node.strays.len(), 2, "a new instance of the same name may have its files there");
}

async fn a_decommission_goes_on_when_a_node_with_the_file_system_is_back(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.add_far(2, 8).await;
    let (near, far) = (rig.node.id, rig.far.as_ref().unwrap().id);
    let sharing = async |rig: &Rig, node, files| {
        let mut tx = rig.store.begin().await.unwrap();
        tx.node_shared_files(node, files).await.unwrap();
        tx.commit().await.unwrap();
    };
    // Its members are gone, and no node can remove what they shared.
    for node in [near, far] {
        sharing(rig, node, None).await;
    }
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    let blocked = rig.drive(stop).await;
    assert!(why(&blocked).contains("no reachable node has the shared file system"), "{}", why(&blocked));
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_lost(far, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    sharing(rig, far, Some("others")).await;
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.operation_blocked_on(far).await.unwrap().is_empty(), "it has another file system");
    tx.commit().await.unwrap();
    sharing(rig, far, Some("files")).await;
    back(rig).await;
    succeeds(rig, stop).await;
    assert!(rig.shares().is_empty());
}
