//! Members whose cells name secrets of the project.

use muster_model::member::MemberState;
use muster_model::operation::OperationState;
use muster_model::secret::ProjectSecret;
use muster_testkit::Database;
use serde_json::json;

use crate::apps::manifest;
use crate::laws;
use crate::member_stories::succeeds;
use crate::rig::Rig;

stories! {
    a_member_whose_secret_is_missing_is_refused_and_undone
    a_secret_that_a_members_cell_names_is_found_by_its_removal
}

/// Has the units of the first release name the secret `token`. Called before any instance starts: releases are cached.
async fn name_a_secret(rig: &Rig) {
    let mut manifest = manifest("1", "new_first");
    manifest["components"][1]["runtime"]["secrets"] = json!([{"secret": "token", "file": "token"}]);
    let update = format!("UPDATE app_versions SET manifest = '{manifest}' WHERE name = '1'");
    rig.store.sabotage(update.leak()).await.unwrap();
}

async fn add_secret(rig: &Rig, like: &muster_model::member::Member) -> ProjectSecret {
    let secret = ProjectSecret {
        id: rig.env.id(),
        tenant_id: like.tenant_id,
        project_id: like.project_id,
        name: "token".to_owned(),
        registry: None,
        revision: 1,
        size: 3,
        sealed: vec![1, 2, 3],
        created_at: rig.env.now(),
        updated_at: rig.env.now(),
        version: 1,
    };
    let mut tx = rig.store.begin().await.unwrap();
    tx.insert_record(&secret).await.unwrap();
    tx.commit().await.unwrap();
    secret
}

async fn a_member_whose_secret_is_missing_is_refused_and_undone(rig: &mut Rig) {
    name_a_secret(rig).await;
    let i = rig.instance("i", 0).await;
    let (unit, add) = rig.add(i).await;
    let ended = rig.drive(add).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("permission")));
    assert!(ended.message.as_deref().unwrap_or_default().contains("secret token"), "{:?}", ended.message);
    let member = rig.member(unit).await;
    assert_eq!((member.state, member.cell_id), (MemberState::Failed, None));
}

async fn a_secret_that_a_members_cell_names_is_found_by_its_removal(rig: &mut Rig) {
    name_a_secret(rig).await;
    let i = rig.instance("i", 0).await;
    let (unit, add) = rig.add(i).await;
    let secret = add_secret(rig, &rig.member(unit).await).await;
    succeeds(rig, add).await;
    let mut tx = rig.store.begin().await.unwrap();
    let cells = tx.secret_delete(&secret).await.unwrap();
    tx.rollback().await;
    assert_eq!(cells, [rig.member(unit).await.name]);
}
