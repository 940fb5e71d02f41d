//! Shared secrets: issued once per instance, found by later requests, issued again after a revocation.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::json;

use crate::person::{Person, done, start};
use crate::platform::{Fault, Platform};

/// Runs a step that requests the secret; returns its id.
async fn told(platform: &Platform) -> String {
    let heard = Arc::new(Mutex::new(String::new()));
    let step = platform.ask("join", Some("unit-1"));
    let hear = heard.clone();
    let running = start(
        platform,
        Person::new(move |cx| {
            let hear = hear.clone();
            Box::pin(async move {
                *hear.lock() = cx.shared_secret("gossip", 64).await?;
                done()
            })
        }),
    );
    platform.until(&step, "done").await;
    running.end().await;
    heard.lock().clone()
}

/// Runs a step that requests a secret issued after this time, and revokes all others.
async fn renewed(platform: &Platform, after: Timestamp) -> String {
    let heard = Arc::new(Mutex::new(String::new()));
    let step = platform.ask("join", Some("unit-1"));
    let hear = heard.clone();
    let running = start(
        platform,
        Person::new(move |cx| {
            let hear = hear.clone();
            Box::pin(async move {
                let secret = cx.shared_secret_after("gossip", 64, Some(after)).await?;
                cx.shared_secret_only("gossip", &secret).await?;
                *hear.lock() = secret;
                done()
            })
        }),
    );
    platform.until(&step, "done").await;
    running.end().await;
    heard.lock().clone()
}

#[tokio::test]
async fn secret_issued_before_the_cutoff_is_replaced_and_revoked() {
    let platform = Platform::start().await;
    let first = told(&platform).await;
    let issued: Timestamp =
        serde_json::from_value(platform.world().secrets[0]["created_at"].clone()).unwrap();
    let before = issued - SignedDuration::from_secs(1);
    assert_eq!(renewed(&platform, before).await, first, "it was issued since");
    platform.fault("runtime_secret_revoke", Fault::LoseAnswer);
    let second = renewed(&platform, issued).await;
    assert_ne!(second, first);
    assert_eq!(told(&platform).await, second, "and whoever asks later has the new one");
    let secrets = platform.world().secrets.clone();
    let standing: Vec<_> = secrets.iter().filter(|secret| secret["revoked_at"].is_null()).collect();
    assert_eq!((standing.len(), &standing[0]["id"]), (1, &json!(second)));
}

#[tokio::test]
async fn material_is_issued_once_and_found_afterwards() {
    let platform = Platform::start().await;
    // The response with the value is lost: the repeated request must not create a second one.
    platform.fault("runtime_secret_issue", Fault::LoseAnswer);
    let first = told(&platform).await;
    assert_eq!(told(&platform).await, first);
    assert_eq!(platform.world().secrets.len(), 1);
    let calls = platform.world().calls.clone();
    let asked = calls.iter().find(|call| call.operation == "runtime_secret_issue").unwrap();
    assert_eq!(asked.body["bytes"], json!(64));
    assert_eq!(asked.body["instance"], json!("inst_1"));
}

#[tokio::test]
async fn secret_revoked_or_of_another_instance_is_not_used() {
    let platform = Platform::start().await;
    let another = json!({
        "id": "rts_another", "tenant_id": "ten_1", "project_id": "prj_consumer", "purpose": "cluster_bootstrap",
        "name": "gossip", "instance_id": "inst_2", "created_at": "2026-01-01T00:00:00Z", "version": 1,
    });
    platform.world().secrets.push(another);
    let first = told(&platform).await;
    assert_ne!(first, "rts_another");
    platform.world().secrets[1]["revoked_at"] = json!("2026-01-01T00:00:00Z");
    let second = told(&platform).await;
    assert_ne!(second, first);
}
