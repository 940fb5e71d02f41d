//! Bytes on the wire.

mod scripted;

use std::time::Duration;

use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Arguments, Connection, Connector, Error, EventStream, Follow, Item};
use scripted::{Reply, Scripted, ok, problem};
use serde_json::json;

fn connection(server: &Scripted) -> Connection {
    Connector::new(&server.url).token("mst_pat_secret").pause(Duration::from_millis(1)).connect().unwrap()
}

fn operation(id: &str) -> &'static Endpoint {
    Description::embedded().endpoint(id).unwrap()
}

fn on(name: &str, value: &str) -> Arguments {
    Arguments { path: [(name.to_owned(), value.to_owned())].into(), ..Arguments::default() }
}

#[tokio::test]
async fn a_command_carries_token_key_and_body() {
    let server = Scripted::start(vec![Reply::Answer(
        201,
        vec![("etag", "\"1\"".to_owned()), ("x-correlation-id", "c0ffee".to_owned())],
        r#"{"slug":"acme"}"#.to_owned(),
    )]);
    let arguments = Arguments { body: Some(json!({"slug": "acme"})), ..Arguments::default() };
    let response = connection(&server).call(operation("tenant_create"), &arguments).await.unwrap();
    assert_eq!(
        (response.status, response.etag.as_deref(), response.correlation_id.as_deref(), response.replayed),
        (201, Some("\"1\""), Some("c0ffee"), false)
    );
    let sent = &server.requests()[0];
    assert_eq!(sent.line, "POST /v1/tenants HTTP/1.1");
    assert_eq!(sent.header("authorization"), Some("Bearer mst_pat_secret"));
    assert_eq!(sent.header("idempotency-key").map(str::len), Some(32));
    assert_eq!(sent.header("if-match"), None);
    assert!(sent.header("user-agent").unwrap().starts_with("muster-sdk/"));
    assert_eq!(sent.body, r#"{"slug":"acme"}"#);
    assert_eq!(response.json(), json!({"slug": "acme"}));
}

#[tokio::test]
async fn a_lost_connection_and_a_busy_server_are_asked_again_under_the_same_key() {
    let server = Scripted::start(vec![Reply::HangUp, problem(503, "unavailable"), ok("{}")]);
    connection(&server).call(operation("tenant_create"), &Arguments::default()).await.unwrap();
    let requests = server.requests();
    let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn it_gives_up_after_three_repetitions() {
    let server = Scripted::start((0..4).map(|_| Reply::HangUp).collect());
    let arguments = Arguments { idempotency_key: Some("mine".to_owned()), ..Arguments::default() };
    let error = connection(&server).call(operation("tenant_create"), &arguments).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| request.header("idempotency-key") == Some("mine")));
}

#[tokio::test]
async fn a_change_reads_the_version_first_and_is_never_repeated() {
    let shown = Reply::Answer(200, vec![("etag", "\"7\"".to_owned())], "{}".to_owned());
    let server = Scripted::start(vec![shown, Reply::HangUp, ok("{}")]);
    let error =
        connection(&server).call(operation("tenant_update"), &on("tenant", "acme")).await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    let requests = server.requests();
    let lines: Vec<&str> = requests.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(lines, ["GET /v1/tenants/acme HTTP/1.1", "PATCH /v1/tenants/acme HTTP/1.1"]);
    assert_eq!(requests[1].header("if-match"), Some("\"7\""));
    assert_eq!(requests[1].header("idempotency-key"), None);
}

#[tokio::test]
async fn a_version_that_was_given_is_sent_as_it_is() {
    let server = Scripted::start(vec![ok("{}")]);
    let mut arguments = on("tenant", "acme");
    arguments.if_match = Some("*".to_owned());
    arguments.query = vec![("cascade".to_owned(), "true".to_owned())];
    connection(&server).call(operation("tenant_delete"), &arguments).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].line, "DELETE /v1/tenants/acme?cascade=true HTTP/1.1");
    assert_eq!(requests[0].header("if-match"), Some("*"));
}

#[tokio::test]
async fn refusals_are_typed_and_strangers_are_told_apart() {
    let html = Reply::Answer(404, vec![("content-type", "text/html".to_owned())], "<html>".to_owned());
    let server = Scripted::start(vec![problem(404, "a_code_of_tomorrow"), html]);
    let connection = connection(&server);
    let refused = connection.call(operation("tenant_get"), &on("tenant", "acme")).await.unwrap_err();
    let refused = refused.problem().unwrap();
    assert_eq!(
        (refused.status, refused.code.as_str(), refused.correlation_id.as_str()),
        (404, "a_code_of_tomorrow", "c0ffee")
    );
    let strange = connection.call(operation("tenant_get"), &on("tenant", "acme")).await.unwrap_err();
    assert!(matches!(strange, Error::Answer { status: 404, .. }), "{strange:?}");
    let nobody = muster_sdk::connect("http://127.0.0.1:1", "t").unwrap();
    let error = nobody.call(operation("whoami"), &Arguments::default()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_typed_call_reads_words_that_are_younger_than_itself() {
    let who = r#"{"kind":"user","id":"usr_1","name":"sam","roles":[{"role":"moon_keeper"}],"permissions":[],"new":1,
                  "token_id":"tok_1","expires_at":"2026-11-15T09:10:29Z"}"#;
    let server = Scripted::start(vec![ok(who), problem(403, "a_code_of_tomorrow")]);
    let connection = connection(&server);
    let who: muster_sdk::types::WhoAmI = connection.fetch("whoami", &Arguments::default()).await.unwrap();
    assert_eq!(who.roles[0].role, muster_sdk::types::Role::Unrecognised);
    let refused = connection.fetch::<muster_sdk::types::WhoAmI>("whoami", &Arguments::default()).await;
    assert_eq!(refused.unwrap_err().problem().unwrap().detail, "so it is");
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_number_over_every_kind_of_end() {
    let event = |number: i64| format!("id: {number}\nevent: event\ndata: {{\"sequence\":{number}}}\n\n");
    let stream = "text/event-stream";
    let server = Scripted::start(vec![
        ok(r#"{"items":[],"next_after":0,"sealed_up_to":4}"#),
        Reply::CutOff(stream, ": muster\n\n".to_owned()),
        Reply::CutOff(stream, format!("{}{}", event(5), event(6))),
        Reply::CutOff(
            stream,
            format!("{}event: end\ndata: {{\"detail\":\"the server is stopping\"}}\n\n", event(7)),
        ),
        Reply::CutOff(stream, format!("id: 9\nevent: reset\ndata: {{\"after\":9}}\n\n{}", event(10))),
        problem(401, "unauthenticated"),
    ]);
    let follow = Follow { project: Some("acme.train".to_owned()), ..Follow::default() };
    let mut events = EventStream::open(&connection(&server), &follow).await.unwrap();
    let mut told = Vec::new();
    let error = loop {
        match events.next().await {
            Ok(Item::Event(event)) => told.push(event["sequence"].to_string()),
            Ok(Item::Reset(after)) => told.push(format!("reset {}", after.unwrap())),
            Ok(Item::End(why)) => told.push(why),
            Ok(Item::Lost(_)) => told.push("lost".to_owned()),
            Err(error) => break error,
        }
    };
    assert_eq!(told, ["lost", "5", "6", "lost", "7", "the server is stopping", "reset 9", "10", "lost"]);
    assert_eq!(error.problem().unwrap().code, "unauthenticated");
    let requests = server.requests();
    let lasts: Vec<_> =
        requests[1..].iter().map(|request| request.header("last-event-id").unwrap()).collect();
    assert_eq!(lasts, ["4", "4", "6", "7", "10"]);
    assert!(requests.iter().all(|request| request.line.contains("project=acme.train")));
}
