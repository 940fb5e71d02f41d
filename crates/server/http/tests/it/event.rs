//! Event streams: no event lost, none twice, and closed for clients that lose their permission.

use std::time::{Duration, Instant};

use muster_testkit::{Client, Database, Fixture, Kit};
use serde_json::{Value, json};

/// A live stream, parsed by hand: exactly the bytes a client receives.
pub(crate) struct Live {
    response: reqwest::Response,
    buffer: String,
}

impl Live {
    pub(crate) async fn open(client: &Client, query: &str, last_event_id: Option<i64>) -> Self {
        Self::at(client, &format!("/v1/events/stream?{query}"), last_event_id).await
    }

    pub(crate) async fn at(client: &Client, path: &str, last_event_id: Option<i64>) -> Self {
        let mut request = client.request(reqwest::Method::GET, path);
        if let Some(last) = last_event_id {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: String::new() }
    }

    /// Returns the event and data of the next frame that is not a comment; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some(end) = self.buffer.find("\n\n") {
                let frame: String = self.buffer.drain(..end + 2).collect();
                let field = |name: &str| {
                    frame.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned)
                };
                if let Some(data) = field("data") {
                    return Some((field("event").unwrap_or_default(), serde_json::from_str(&data).unwrap()));
                }
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await;
            let bytes = chunk.expect("a stream says something within twenty seconds").ok()??;
            self.buffer.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_gives_what_is_kept_then_what_happens_on_every_replica() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    let elsewhere = kit.client_of(1, fixture.token("tenant_admin"));
    let mut live = Live::open(&elsewhere, "tenant=acme&after=0", None).await;
    let made = tokio::spawn(async move {
        for at in 0..40 {
            admin.post("/v1/tenants/acme/projects", json!({"name": format!("p{at}")})).await.ok();
        }
    });
    let mut names = Vec::new();
    let mut last = 0;
    while names.len() < 40 {
        let (event, data) = live.next().await.unwrap();
        assert_eq!(event, "event");
        assert_eq!(data["sequence"], last + 1, "no gap and nothing twice");
        last += 1;
        if data["type"] == "dev.muster.project.created.v1"
            && data["data"]["name"].as_str().unwrap().starts_with('p')
        {
            names.push(data["data"]["name"].as_str().unwrap().to_owned());
        }
    }
    made.await.unwrap();
    let expected: Vec<String> = (0..40).map(|at| format!("p{at}")).collect();
    assert_eq!(names, expected, "one caller's commands keep their order");
    // A reconnect resumes where it stopped.
    let mut resumed = Live::open(&elsewhere, "tenant=acme", Some(last - 3)).await;
    for number in last - 2..=last {
        assert_eq!(resumed.next().await.unwrap().1["sequence"], number);
    }
    kit.stop().await;
}

async fn ends_within_five_seconds(live: &mut Live) {
    let started = Instant::now();
    loop {
        match live.next().await {
            Some((event, _)) if event == "end" => break,
            Some(_) => {}
            None => break,
        }
    }
    assert!(started.elapsed() < Duration::from_secs(5), "it took {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_on_every_replica_when_its_right_does() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");

    // Revoked.
    let token = admin.post("/v1/tokens", json!({"name": "short"})).await.ok();
    let listener = kit.client_of(1, &token.text_of("secret"));
    let mut live = Live::open(&listener, "tenant=acme", None).await;
    admin.post(&format!("/v1/tokens/{}/revoke", token.text_of("id")), json!({})).await.ok();
    ends_within_five_seconds(&mut live).await;
    listener.get("/v1/whoami").await.refused(401, "unauthenticated");

    // Expired.
    let token = admin.post("/v1/tokens", json!({"name": "short", "expires_in_seconds": 1})).await.ok();
    let mut live = Live::open(&kit.client_of(1, &token.text_of("secret")), "tenant=acme", None).await;
    ends_within_five_seconds(&mut live).await;

    // The role was lost.
    let viewer = kit.client_of(1, fixture.token("viewer"));
    let mut live = Live::open(&viewer, &format!("project={}", fixture.id("train")), None).await;
    admin.delete(&format!("/v1/role-bindings/{}", fixture.id("viewer_binding"))).await.ok();
    ends_within_five_seconds(&mut live).await;

    // The person was disabled.
    let shut = kit.client_of(1, fixture.token("project_admin"));
    let mut live = Live::open(&shut, &format!("project={}", fixture.id("train")), None).await;
    admin.patch(&format!("/v1/users/{}", fixture.id("project_admin")), json!({"disabled": true})).await.ok();
    ends_within_five_seconds(&mut live).await;
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_from_pruned_events_begins_with_a_reset() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let mut tx = kit.store().begin().await.unwrap();
    tx.sweep_events(jiff::Timestamp::MAX).await.unwrap();
    tx.commit().await.unwrap();
    let admin = fixture.client(&kit, "tenant_admin");
    let mut live = Live::open(&admin, "tenant=acme&after=1", None).await;
    let (event, data) = live.next().await.unwrap();
    assert_eq!(event, "reset");
    let made = admin.post("/v1/tenants/acme/projects", json!({"name": "after"})).await.ok();
    let (event, next) = live.next().await.unwrap();
    assert_eq!(event, "event");
    assert_eq!(next["sequence"].as_i64(), data["after"].as_i64().map(|after| after + 1));
    assert_eq!(next["subject"], format!("/v1/projects/{}", made.text_of("id")));
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_ends_its_streams_and_finishes() {
    let kit = Kit::sqlite().await;
    let mut live = Live::open(&kit.operator(), "", None).await;
    let started = Instant::now();
    kit.stop().await;
    assert!(started.elapsed() < Duration::from_secs(8), "stopping took {:?}", started.elapsed());
    while let Some((event, _)) = live.next().await {
        assert!(event == "end" || event == "event");
    }
}
