//! Start of an adapter, over the wire.

#[path = "../../sdk/tests/scripted/mod.rs"]
#[expect(dead_code, reason = "an adapter's start needs only the simplest of its answers")]
mod scripted;

use muster_adapter_kit::connect;
use scripted::{Scripted, ok};

#[tokio::test]
async fn an_adapter_knows_who_it_is() {
    let server = Scripted::start(vec![ok(
        r#"{"kind":"service_account","id":"sa_1","name":"fake","project_id":"prj_1","permissions":["event.list"]}"#,
    )]);
    let adapter = connect(&server.url, "mst_sat_x\n").await.unwrap();
    assert_eq!((adapter.identity.name.as_str(), adapter.identity.project_id.as_str()), ("fake", "prj_1"));
    assert_eq!(adapter.identity.permissions, ["event.list"]);
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer mst_sat_x"));
}

#[tokio::test]
async fn a_persons_token_is_refused_here() {
    let server = Scripted::start(vec![ok(r#"{"kind":"user","id":"usr_1","name":"sam"}"#)]);
    let error = connect(&server.url, "mst_pat_x").await.unwrap_err();
    assert!(error.to_string().contains("belongs to a user"), "{error}");
}

#[tokio::test]
async fn a_platform_that_is_not_there_is_named() {
    let error = connect("http://127.0.0.1:1", "mst_sat_x").await.unwrap_err();
    assert!(error.to_string().contains("http://127.0.0.1:1"), "{error}");
}
