//! Webhooks: signed, in order, retried, and never into the operator's own network.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_testkit::{Database, Fixture, Kit};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    head: String,
    pub(crate) body: String,
}

impl Received {
    fn header(&self, name: &str) -> String {
        let found = self
            .head
            .lines()
            .find_map(|line| line.to_lowercase().strip_prefix(&format!("{name}: ")).map(str::to_owned));
        let start = self.head.to_lowercase().find(&format!("{name}: "));
        match (found, start) {
            (Some(_), Some(at)) => {
                self.head[at + name.len() + 2..].lines().next().unwrap_or_default().to_owned()
            }
            _ => String::new(),
        }
    }
}

/// Starts a receiver that fails this many times first.
pub(crate) async fn receiver(fail: usize) -> (String, Arc<Mutex<Vec<Received>>>) {
    receiver_after(fail, Duration::ZERO).await
}

/// The same, with a delay before each answer.
async fn receiver_after(fail: usize, delay: Duration) -> (String, Arc<Mutex<Vec<Received>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let received: Arc<Mutex<Vec<Received>>> = Arc::default();
    let kept = received.clone();
    tokio::spawn(async move {
        let mut left = fail;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let mut buffer = [0; 8192];
            let (head, body) = loop {
                let read = stream.read(&mut buffer).await.unwrap_or(0);
                bytes.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length = head
                        .to_lowercase()
                        .split("content-length: ")
                        .nth(1)
                        .and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
                    if body.len() >= length.unwrap_or(0) {
                        break (head.to_owned(), body.to_owned());
                    }
                }
                if read == 0 {
                    break (String::new(), String::new());
                }
            };
            kept.lock().push(Received { head, body });
            let status = if left > 0 { "500 Internal Server Error" } else { "204 No Content" };
            left = left.saturating_sub(1);
            tokio::time::sleep(delay).await;
            let _ = stream
                .write_all(
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").as_bytes(),
                )
                .await;
        }
    });
    (url, received)
}

async fn until(received: &Arc<Mutex<Vec<Received>>>, count: usize) -> Vec<Received> {
    for _ in 0..200 {
        if received.lock().len() >= count {
            return received.lock().clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("only {} of {count} deliveries came", received.lock().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_delivered_signed_in_order_and_again_after_a_failure() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let (url, received) = receiver(1).await;
        let body =
            json!({"name": "pager", "tenant": "acme", "url": url, "event_types": ["dev.muster.project.*"]});
        let hook = admin.post("/v1/webhooks", body).await.ok();
        let key = STANDARD.decode(hook.text_of("secret").trim_start_matches("whsec_")).unwrap();
        for name in ["one", "two", "three"] {
            admin.post("/v1/tenants/acme/projects", json!({"name": name})).await.ok();
        }
        // Not delivered: another tenant's event, and another type.
        fixture
            .client(&kit, "other_tenant_admin")
            .post("/v1/tenants/globex/projects", json!({"name": "x"}))
            .await
            .ok();
        admin.post("/v1/tokens", json!({"name": "t"})).await.ok();
        let got = until(&received, 4).await;
        let names: Vec<Value> = got
            .iter()
            .map(|one| serde_json::from_str::<Value>(&one.body).unwrap()["data"]["name"].clone())
            .collect();
        assert_eq!(names, ["one", "one", "two", "three"], "the first was tried again, and the order kept");
        for one in &got {
            let signed =
                format!("{}.{}.{}", one.header("webhook-id"), one.header("webhook-timestamp"), one.body);
            let tag = aws_lc_rs::hmac::sign(
                &aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key),
                signed.as_bytes(),
            );
            assert_eq!(one.header("webhook-signature"), format!("v1,{}", STANDARD.encode(tag)));
        }
        assert_eq!(got[0].header("webhook-id"), got[1].header("webhook-id"), "a repeat has the same id");
        let path = format!("/v1/webhooks/{}/deliveries", hook.text_of("id"));
        let attempts = admin.get(&path).await.ok();
        assert_eq!(attempts.body["items"][0]["delivered"], false);
        assert_eq!(attempts.body["items"][1]["attempt"], 2);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_inside_are_refused_unless_the_operator_allows_them() {
    let kit = Kit::start_with(Database::sqlite(), 1, &[("webhooks.allow_private", "false")]).await;
    let operator = kit.operator();
    for url in [
        "http://127.0.0.1:9/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://10.0.0.1/",
        "ftp://x.example/",
    ] {
        let made = operator.post("/v1/webhooks", json!({"name": "h", "url": url})).await;
        assert_eq!(made.code(), "url_not_allowed", "{url}: {}", made.text);
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signing_key_survives_the_rotation_of_its_tenants_key_and_of_the_root_key() {
    let kit = Kit::start(Database::postgres(), 1).await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    let (url, received) = receiver(0).await;
    let body =
        json!({"name": "pager", "tenant": "acme", "url": url, "event_types": ["dev.muster.project.*"]});
    let hook = admin.post("/v1/webhooks", body).await.ok();
    let key = STANDARD.decode(hook.text_of("secret").trim_start_matches("whsec_")).unwrap();
    let platform = kit.servers[0].platform.clone();

    admin.post("/v1/tenants/acme/rotate-key", json!({})).await.ok();
    let before =
        kit.store().webhook_lookup(hook.text_of("id").parse().unwrap()).await.unwrap().unwrap().secret_sealed;
    muster_jobs::reseal(&platform).await.unwrap();
    let after =
        kit.store().webhook_lookup(hook.text_of("id").parse().unwrap()).await.unwrap().unwrap().secret_sealed;
    assert_ne!(before[..4], after[..4], "sealed anew under the next version");

    let file = kit.database.folder().join("root.key");
    let old = platform.root_keys().active();
    let fresh = muster_keys::RootKeys::add(&file, &muster_ids::Env::system()).unwrap();
    muster_keys::RootKeys::activate(&file, &fresh).unwrap();
    assert!(platform.root_keys().reload().unwrap());
    muster_jobs::rewrap(&platform).await.unwrap();
    assert_eq!(
        kit.store().sealing_keys_under(&old).await.unwrap(),
        0,
        "nothing is left under the old root key"
    );
    muster_keys::RootKeys::retire(&file, &old, 0).unwrap();
    platform.root_keys().reload().unwrap();

    admin.post("/v1/tenants/acme/projects", json!({"name": "after"})).await.ok();
    let got = until(&received, 1).await;
    let signed =
        format!("{}.{}.{}", got[0].header("webhook-id"), got[0].header("webhook-timestamp"), got[0].body);
    let tag = aws_lc_rs::hmac::sign(
        &aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key),
        signed.as_bytes(),
    );
    assert_eq!(got[0].header("webhook-signature"), format!("v1,{}", STANDARD.encode(tag)));
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_numbered_by_the_tenants_stream_and_start_after_the_webhook() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let other = fixture.client(&kit, "other_tenant_admin");
        for at in 0..3 {
            other.post("/v1/tenants/globex/projects", json!({"name": format!("noise{at}")})).await.ok();
        }
        let (url, received) = receiver(0).await;
        // Committed just before, and perhaps not sealed yet.
        admin.post("/v1/tenants/acme/projects", json!({"name": "before"})).await.ok();
        let hook =
            admin.post("/v1/webhooks", json!({"name": "all", "tenant": "acme", "url": url})).await.ok();
        assert!(hook.body["cursor"].is_null(), "the platform's number is nothing to a tenant: {}", hook.text);
        admin.post("/v1/tenants/acme/projects", json!({"name": "after"})).await.ok();
        let got = until(&received, 1).await;
        let event: Value = serde_json::from_str(&got[0].body).unwrap();
        assert_eq!(event["data"]["name"], "after", "{event}");
        let path = format!("/v1/webhooks/{}/deliveries", hook.text_of("id"));
        let mut deliveries = admin.get(&path).await.ok();
        for _ in 0..100 {
            if deliveries.body["items"][0].is_object() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            deliveries = admin.get(&path).await.ok();
        }
        assert_eq!(deliveries.body["items"][0]["sequence"], event["sequence"], "{}", deliveries.text);
        kit.stop().await;
    }
}

/// Starts a receiver that accepts a connection and never responds.
async fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_receivers_of_one_tenant_hold_up_no_other_and_webhooks_are_counted() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let (admin, other) = (fixture.client(&kit, "tenant_admin"), fixture.client(&kit, "other_tenant_admin"));
    let slow = silent().await;
    let types = json!(["dev.muster.project.*"]);
    let mut made = 0;
    let refused = loop {
        let body =
            json!({"name": format!("slow{made}"), "tenant": "acme", "url": slow, "event_types": types});
        let answer = admin.post("/v1/webhooks", body).await;
        if answer.status != 201 {
            break answer;
        }
        made += 1;
        assert!(made <= 100, "there is no end to it");
    };
    refused.refused(409, "quota_exceeded");
    let (url, received) = receiver(0).await;
    let hook = json!({"name": "quick", "tenant": "globex", "url": url, "event_types": types});
    other.post("/v1/webhooks", hook).await.ok();
    admin.post("/v1/tenants/acme/projects", json!({"name": "starts-the-slow-ones"})).await.ok();
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Two rounds of slow receivers would take twenty seconds each.
    let started = std::time::Instant::now();
    for at in 0..3 {
        other.post("/v1/tenants/globex/projects", json!({"name": format!("quick{at}")})).await.ok();
        until(&received, at + 1).await;
    }
    assert!(started.elapsed() < Duration::from_secs(8), "it took {:?}", started.elapsed());
    kit.stop().await;
}

/// Attack: the receiver of a tenant answers each delivery, but just before the timeout, so that its turn never ends. The webhook of
/// another tenant, which failed, must be tried again meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_receiver_that_answers_holds_up_no_retry_of_another_tenant() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let (admin, other) = (fixture.client(&kit, "tenant_admin"), fixture.client(&kit, "other_tenant_admin"));
    let types = json!(["dev.muster.project.*"]);
    let (slow, slowly) = receiver_after(0, Duration::from_secs(8)).await;
    let (failing, received) = receiver(2).await;
    let hook = json!({"name": "slow", "tenant": "acme", "url": slow, "event_types": types});
    admin.post("/v1/webhooks", hook).await.ok();
    let hook = json!({"name": "failing", "tenant": "globex", "url": failing, "event_types": types});
    other.post("/v1/webhooks", hook).await.ok();
    for at in 0..8 {
        admin.post("/v1/tenants/acme/projects", json!({"name": format!("slow{at}")})).await.ok();
    }
    until(&slowly, 1).await;
    other.post("/v1/tenants/globex/projects", json!({"name": "fails-twice"})).await.ok();
    // The first attempt may follow events that the webhook skips, so only the second one makes no progress at all. The third comes
    // two seconds later; the slow receiver is busy for a minute.
    until(&received, 3).await;
    assert!(slowly.lock().len() < 8, "the slow receiver was not slow");
    kit.stop().await;
}
