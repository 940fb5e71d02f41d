//! Unexpected ends of streams.

use std::time::{Duration, Instant};

use muster_model::cell::CellState;
use serde_json::json;

use super::refusals::move_cell;
use super::{Scene, all, until, upgrading};

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_ends_its_streams_within_five_seconds() {
    let scene = Scene::new().await;
    let admin = scene.client("project_admin");
    let token = admin.post("/v1/tokens", json!({"name": "short"})).await.ok();
    let secret = token.text_of("secret");
    let asked = scene.ask(&admin.with_token(&secret), json!({"command": {"command": ["cat"]}})).await.ok();
    let (mut input, mut output) = scene.join_at(0, &secret, &asked.text_of("path")).await.unwrap();
    input.send(b"alive").await.unwrap();
    until(&mut output, "alive").await;
    admin.post(&format!("/v1/tokens/{}/revoke", token.text_of("id")), json!({})).await.ok();
    let revoked = Instant::now();
    let why = all((input, output)).await.failed.unwrap();
    assert!(why.contains("revoked"), "{why}");
    assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_role_ends_a_stream_within_five_seconds_even_if_nobody_reads_it() {
    let scene = Scene::new().await;
    let (_input, mut output) = scene.command(&["yes"]).await;
    until(&mut output, "y\n").await;
    let binding = scene.fixture.id("project_admin_binding");
    let tenant = scene.client("tenant_admin");
    tenant
        .send(
            tenant
                .request(reqwest::Method::DELETE, &format!("/v1/role-bindings/{binding}"))
                .header("if-match", "*"),
        )
        .await
        .ok();
    // The client did not read: the close frame could not be sent, but the stream is over, and its slot is free. Five
    // seconds are guaranteed, five more allow for a busy machine.
    for _ in 0..200 {
        if scene.kit.servers[0].platform.metrics.streams.get() == 0 {
            return scene.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the stream lives on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_destroyed_ends_its_streams() {
    let scene = Scene::new().await;
    let (mut input, mut output) = scene.command(&["cat"]).await;
    input.send(b"alive").await.unwrap();
    until(&mut output, "alive").await;
    move_cell(&scene, CellState::Destroying).await;
    let destroyed = Instant::now();
    let why = all((input, output)).await.failed.unwrap();
    assert!(why.contains("destroying"), "{why}");
    assert!(destroyed.elapsed() < Duration::from_secs(5));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_so() {
    let scene = Scene::new().await;
    let (mut input, mut output) = scene.command(&["cat"]).await;
    input.send(b"alive").await.unwrap();
    until(&mut output, "alive").await;
    let Scene { kit, mut fleet, .. } = scene;
    let began = Instant::now();
    let (heard, ()) = tokio::join!(all((input, output)), kit.stop());
    assert!(heard.failed.unwrap().contains("stopping"));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_goes_away_ends_its_streams_and_one_that_is_away_is_not_waited_for_long() {
    let mut scene = Scene::new().await;
    let (mut input, mut output) = scene.command(&["cat"]).await;
    input.send(b"alive").await.unwrap();
    until(&mut output, "alive").await;
    scene.fleet.die(0).await;
    let why = all((input, output)).await.failed.unwrap();
    assert!(why.contains("node"), "{why}");
    let (_input, mut output) = scene.command(&["cat"]).await;
    let mut said = Ok(muster_sdk::Said::Started);
    let waited = Instant::now();
    while matches!(said, Ok(muster_sdk::Said::Started)) {
        said = output.next().await;
    }
    assert!(matches!(&said, Ok(muster_sdk::Said::Failed(why)) if why.contains("did not answer")), "{said:?}");
    assert!(waited.elapsed() < Duration::from_secs(22));
    scene.stop().await;
}

/// Messages that are too large, on no channel, or not allowed for the sender end the stream, and only that.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_no_stream_has_end_it() {
    use futures::{SinkExt as _, StreamExt as _};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    let scene = Scene::new().await;
    let admin = scene.client("project_admin");
    let strange = [
        Message::Binary(vec![0; (1 << 20) + 1].into()),
        Message::Binary(vec![1, 2, 3].into()),
        Message::Binary(vec![9].into()),
        Message::Binary(b"\x03{\"exited\": {\"status\": 0}}".to_vec().into()),
        Message::Text("hello".into()),
    ];
    for message in strange {
        let path = scene.ask(&admin, json!({"command": {"command": ["cat"]}})).await.ok().text_of("path");
        let response = upgrading(admin.request(reqwest::Method::GET, &path)).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 101);
        let upgraded = response.upgrade().await.unwrap();
        let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
        let _ = socket.send(message.clone()).await;
        let mut last = None;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Binary(bytes) = message {
                last = Some(bytes);
            }
        }
        let last = last.unwrap_or_default();
        assert!(last.starts_with(b"\x03{\"failed\""), "{:?}: {last:?}", message.len());
    }
    let (input, output) = scene.command(&["echo", "still", "there"]).await;
    assert_eq!(all((input, output)).await.text(), "still there\n");
    scene.stop().await;
}

/// The path is specific to the node: another node's certificate opens nothing, and does not consume the stream.
#[tokio::test(flavor = "multi_thread")]
async fn agent_of_another_node_cannot_open_the_stream() {
    let scene = Scene::new().await;
    let streams = &scene.kit.servers[0].platform.streams;
    let other = muster_ids::Env::system().id();
    let mut scene_fleet = scene.fleet;
    // The right agent is partitioned, so the stream waits.
    scene_fleet.partition(0, true);
    let admin = scene.fixture.client(&scene.kit, "project_admin");
    let path = format!("/v1/projects/{}/cells/{}/streams", scene.fixture.id("train"), scene.cell);
    let asked = admin.post(&path, json!({"command": {"command": ["echo", "mine"]}})).await.ok();
    let server = format!("http://{}", scene.kit.servers[0].address);
    let connection = muster_sdk::connect(&server, scene.fixture.token("project_admin")).unwrap();
    let (input, output) = connection.join(&asked.text_of("path")).await.unwrap();
    let id = asked.text_of("id").parse().unwrap();
    assert!(streams.take(id, other).is_none());
    scene_fleet.partition(0, false);
    let heard = all((input, output)).await;
    assert_eq!(heard.text(), "mine\n");
    assert!(streams.take(id, scene.node).is_none(), "it was taken once");
    scene_fleet.stop().await;
    scene.kit.stop().await;
}
