//! Canaries: recognizable secrets, sent through everything that handles secrets. Afterwards every byte that the platform
//! wrote is searched for them, in every encoding that could have been written by mistake.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use muster_testkit::Database;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

use super::secrets::{ask, file, played, told};
use crate::secret::{issuer, pushed};

/// Everything logged in this process, at every level, with every field.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

struct Line<'l>(&'l mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push_str(&format!("{}={value} ", field.name()));
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(&mut self.0.lock()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.0.lock()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock();
        event.record(&mut Line(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns the base64 characters that only depend on the secret, with `before` bytes in front of it.
fn inside(engine: &impl base64::Engine, before: usize, secret: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret);
    let whole = before + secret.len();
    let text = engine.encode(&bytes);
    // A character holds six bits: the first and the last that only contain bits of the secret.
    let (first, last) = ((before * 8).div_ceil(6), whole * 8 / 6);
    text.as_bytes()[first..last].to_vec()
}

/// Returns the encodings in which a secret may have been written.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let hex = muster_model::hex::encode(secret);
    let every: String = secret.iter().map(|byte| format!("%{byte:02X}")).collect();
    let url: String = url::form_urlencoded::byte_serialize(secret).collect();
    let list = json!(secret).to_string();
    let mut forms = vec![
        secret.to_vec(),
        hex.to_uppercase().into_bytes(),
        hex.into_bytes(),
        every.into_bytes(),
        url.into_bytes(),
        list.trim_matches(['[', ']']).as_bytes().to_vec(),
    ];
    for before in 0..3 {
        forms.push(inside(&STANDARD, before, secret));
        forms.push(inside(&URL_SAFE, before, secret));
    }
    forms
}

fn holds(text: &[u8], secret: &[u8]) -> bool {
    forms(secret).iter().any(|form| text.windows(form.len()).any(|window| window == form.as_slice()))
}

#[test]
fn the_search_finds_every_form() {
    let secret = b"c4n4ry/one+?";
    assert!(!holds(b"nothing of the kind c4n4ry/one", secret));
    let quoted = json!({"a": "c4n4ry/one+?"}).to_string();
    assert!(holds(quoted.as_bytes(), secret));
    for planted in [
        STANDARD.encode("c4n4ry/one+?"),
        STANDARD.encode("user:c4n4ry/one+?:more"),
        STANDARD.encode("use:c4n4ry/one+?"),
        STANDARD.encode("us:c4n4ry/one+? "),
        URL_SAFE.encode("x c4n4ry/one+?"),
        "63346e3472792f6f6e652b3f".to_owned(),
        "63346E3472792F6F6E652B3F".to_owned(),
        "q=c4n4ry%2Fone%2B%3F&".to_owned(),
        format!("{:?}", b"c4n4ry/one+?").replace(", ", ","),
    ] {
        assert!(holds(planted.as_bytes(), secret), "{planted}");
    }
}

/// Returns every byte of the database, including its write-ahead log.
fn bytes(folder: &std::path::Path) -> Vec<u8> {
    let mut all = Vec::new();
    for name in ["muster.db", "muster.db-wal"] {
        all.extend(std::fs::read(folder.join(name)).unwrap_or_default());
    }
    assert!(all.len() > 100_000, "the database was not read");
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn no_canary_is_written_anywhere_and_one_that_is_planted_is_found() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).expect("each test has a process of its own");
    let (scene, hand) = played(Database::sqlite()).await;
    let mut canaries: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut answers = String::new();

    // A project secret, its rotation, and requests that are refused and repeated.
    let (kept, rotated) = ("c4n4ry/kept+one?", "c4n4ry/rotated+two?");
    canaries.push(("kept", kept.into()));
    canaries.push(("rotated", rotated.into()));
    let secrets = format!("{}/secrets", scene.base);
    let body = json!({"name": "token", "value": kept});
    for _ in 0..2 {
        answers += &scene.admin.post_with_key(&secrets, body.clone(), "k").await.ok().text;
    }
    answers += &scene.admin.post(&secrets, body).await.refused(409, "name_taken").text;
    answers += &scene.admin.post(&secrets, json!({"name": "b", "value": [kept], "x": kept})).await.text;
    let encoded = json!({"value": STANDARD.encode(rotated), "encoding": "base64"});
    answers += &scene.admin.post(&format!("{secrets}/token/rotate"), encoded).await.ok().text;

    // Issued secrets and a webhook's key: each is in one response, and nowhere else.
    let issuer = issuer(&scene.kit, &scene.fixture).await;
    let issued = format!("{}/runtime-secrets", scene.base);
    let body = json!({"purpose": "cluster_bootstrap", "name": "gossip"});
    let gossip = issuer.post_with_key(&issued, body.clone(), "k").await.ok();
    answers += &issuer.post_with_key(&issued, body, "k").await.ok().text;
    canaries.push(("bootstrap", STANDARD.decode(gossip.text_of("value")).unwrap()));
    let hook = json!({"name": "h", "project": scene.fixture.id("train"), "url": "http://127.0.0.1:9/"});
    let hook = scene.admin.post("/v1/webhooks", hook).await.ok();
    let key = STANDARD.decode(hook.text_of("secret").trim_start_matches("whsec_")).unwrap();
    canaries.push(("webhook", key));

    // A cell references them, and its node requests them and the image.
    pushed(&scene.kit).await;
    let files = json!([{"secret": "token", "file": "t"}, {"secret": gossip.body["id"], "file": "g"}]);
    let cell = scene.running("shell", "a", json!({"secrets": files})).await;
    let made_from = "UPDATE cells SET artifact_id = '01900000-0000-7000-9000-000000000002'";
    scene.kit.store().sabotage(made_from).await.unwrap();
    assert_eq!(told(ask(&hand.agent, &cell, 1, file("t")).await), rotated);
    ask(&hand.agent, &cell, 1, file("g")).await.ok();
    canaries
        .push(("node's token", told(ask(&hand.agent, &cell, 1, json!("artifact_pull")).await).into_bytes()));
    let pull = json!({"purpose": "artifact_pull", "name": "p", "repository": "base", "cell": "shell"});
    let pull = issuer.post(&issued, pull).await.ok();
    canaries.push(("account's token", pull.text_of("value").into_bytes()));
    ask(&hand.agent, &cell, 9, file("t")).await.refused(404, "not_found");

    // Keys are rotated, and everything is read and removed.
    scene.admin.post("/v1/tenants/acme/rotate-key", json!({})).await.ok();
    muster_jobs::reseal(&scene.kit.servers[0].platform).await.unwrap();
    for path in ["secrets", "secrets/token", "runtime-secrets", "cells", "cells/shell"] {
        answers += &scene.admin.get(&format!("{}/{path}", scene.base)).await.ok().text;
    }
    scene.done(scene.act("cells/shell/destroy").await).await;
    answers += &scene.admin.delete(&format!("{secrets}/token")).await.ok().text;
    scene.kit.sealed().await;
    let events = format!("/v1/events?project={}&page_size=200", scene.fixture.id("train"));
    for path in [events.as_str(), "/v1/audit?tenant=acme&page_size=200"] {
        let page = scene.admin.get(path).await.ok();
        assert!(page.text.contains("secret"), "{}", page.text);
        answers += &page.text;
    }
    let logged = log.0.lock().clone();
    assert!(logged.contains("endpoint=secret_create"));

    let folder = scene.kit.database.folder();
    let written = bytes(&folder);
    for (what, canary) in &canaries {
        assert!(!holds(&written, canary), "the database holds {what}");
        assert!(!holds(answers.as_bytes(), canary), "an answer holds {what}");
        assert!(!holds(logged.as_bytes(), canary), "the log holds {what}");
    }
    plant(&scene, &log, kept, &canaries).await;
    drop(hand);
    scene.kit.stop().await;
}

/// The same search detects a leak into a row, plain and encoded, and one into the log.
async fn plant(scene: &super::Scene, log: &Log, kept: &str, canaries: &[(&str, Vec<u8>)]) {
    let encoded: Vec<Value> = canaries.iter().map(|(_, canary)| json!(STANDARD.encode(canary))).collect();
    let project = format!("/v1/projects/{}", scene.fixture.id("train"));
    for leak in encoded.iter().chain([&json!(kept)]) {
        scene.admin.patch(&project, json!({"display_name": leak})).await.ok();
    }
    tracing::info!(leak = kept, "a planted line");
    let written = bytes(&scene.kit.database.folder());
    for (what, canary) in canaries {
        assert!(holds(&written, canary), "a leak of {what} is not seen");
    }
    assert!(holds(log.0.lock().as_bytes(), kept.as_bytes()), "a leak into the log is not seen");
}
