//! Refused sockets: the client gets a problem document instead.

use muster_ids::{Env, StreamId};
use muster_model::cell::CellState;
use serde_json::json;

use super::{Scene, all, refused, upgrading};

#[tokio::test(flavor = "multi_thread")]
async fn only_who_asked_joins_and_only_once() {
    let scene = Scene::new().await;
    let admin = scene.client("project_admin");
    let path = scene.ask(&admin, json!({"command": {"command": ["cat"]}})).await.ok().text_of("path");
    for other in ["tenant_admin", "viewer", "operator", "other_tenant_admin", "account_with_grant"] {
        refused(scene.join_at(0, scene.fixture.token(other), &path).await, 404, "not_found");
    }
    for nobody in ["revoked", "expired", "malformed"] {
        refused(scene.join_at(0, scene.fixture.token(nobody), &path).await, 401, "unauthenticated");
    }
    // A request without an upgrade is refused, and does not consume the stream.
    admin.get(&path).await.refused(400, "invalid_request");
    let (mut input, output) = scene.join_at(0, scene.fixture.token("project_admin"), &path).await.unwrap();
    let again =
        refused(scene.join_at(0, scene.fixture.token("project_admin"), &path).await, 409, "invalid_state");
    assert!(again.contains("joined before"), "{again}");
    input.end().await.unwrap();
    assert_eq!(all((input, output)).await.status, Some(0));
    let absent = format!("/v1/streams/{}", Env::system().id::<StreamId>());
    refused(scene.join_at(0, scene.fixture.token("project_admin"), &absent).await, 404, "not_found");
    refused(
        scene.join_at(0, scene.fixture.token("project_admin"), "/v1/streams/none").await,
        404,
        "not_found",
    );
    scene.stop().await;
}

/// Attack X3: a browser on another site has the cookie, and an upgrade does not bypass the command pipeline.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_cannot_bypass_the_command_pipeline() {
    let scene = Scene::new().await;
    let admin = scene.client("project_admin");
    let path = scene.ask(&admin, json!({"command": {"command": ["cat"]}})).await.ok().text_of("path");
    let upgrade = || upgrading(admin.request(reqwest::Method::GET, &path));
    let elsewhere = upgrade().header("origin", "https://evil.example").send().await.unwrap();
    assert_eq!(elsewhere.status().as_u16(), 403);
    let rebound = upgrade().header("host", "evil.example").send().await.unwrap();
    assert_eq!(rebound.status().as_u16(), 421);
    let nobody = scene.client("anonymous");
    let anonymous = upgrading(nobody.request(reqwest::Method::GET, &path)).send().await.unwrap();
    assert_eq!(anonymous.status().as_u16(), 401);
    // None of it consumed the stream.
    assert!(scene.join_at(0, scene.fixture.token("project_admin"), &path).await.is_ok());
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_not_joined_in_time_is_over() {
    let scene = Scene::new().await;
    let asked =
        scene.ask(&scene.client("project_admin"), json!({"command": {"command": ["cat"]}})).await.ok();
    scene.kit.store().sabotage("UPDATE cell_streams SET expires_at = created_at").await.unwrap();
    let joined = scene.join_at(0, scene.fixture.token("project_admin"), &asked.text_of("path")).await;
    assert!(refused(joined, 409, "invalid_state").contains("in time"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_in_a_cell_that_is_not_there() {
    let scene = Scene::new().await;
    let admin = scene.client("project_admin");
    let asked = scene.ask(&admin, json!({"command": {"command": ["cat"]}})).await.ok();
    move_cell(&scene, CellState::Destroying).await;
    let joined = scene.join_at(0, scene.fixture.token("project_admin"), &asked.text_of("path")).await;
    refused(joined, 409, "invalid_state");
    scene.ask(&admin, json!({"command": {"command": ["cat"]}})).await.refused(409, "invalid_state");
    scene.ask_logs(&admin, json!({})).await.refused(409, "invalid_state");
    scene.stop().await;
}

pub(super) async fn move_cell(scene: &Scene, state: CellState) {
    let store = scene.kit.store();
    let before = store.cell_lookup(scene.cell).await.unwrap().unwrap();
    let after = muster_model::cell::Cell { state, ..before.clone() };
    let mut tx = store.begin().await.unwrap();
    tx.cell_move(&before, &after, Env::system().now()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_stream_request_is_refused() {
    let scene = Scene::new().await;
    let admin = scene.client("project_admin");
    for wrong in [
        json!({"command": {"command": []}}),
        json!({"command": {"command": [""]}}),
        json!({"command": {"command": ["a"], "shell": true}}),
        json!({"command": {"command": ["a"], "working_directory": "tmp"}}),
        json!({"command": {"command": ["a"], "columns": 0}}),
        json!({"read": {"path": "etc/passwd"}}),
        json!({"write": {"path": "/x", "mode": "999"}}),
        json!({"logs": {}}),
        json!({}),
        json!({"read": {"path": "/a"}, "write": {"path": "/b"}}),
    ] {
        scene.ask(&admin, wrong).await.refused(400, "invalid_request");
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_so_many_streams_at_once() {
    let scene = Scene::with(muster_testkit::Database::sqlite(), 1, &[("streams.per_tenant", "2")]).await;
    let admin = scene.client("project_admin");
    let token = scene.fixture.token("project_admin");
    let first = scene.command(&["cat"]).await;
    let _second = scene.command(&["cat"]).await;
    let path = scene.ask(&admin, json!({"command": {"command": ["cat"]}})).await.ok().text_of("path");
    refused(scene.join_at(0, token, &path).await, 429, "rate_limited");
    let (mut input, output) = first;
    input.end().await.unwrap();
    all((input, output)).await;
    // The refusal did not consume the stream, and the slot is free as soon as the server notices the end.
    for _ in 0..100 {
        match scene.join_at(0, token, &path).await {
            Ok(_) => return scene.stop().await,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
    panic!("the place stays taken");
}
