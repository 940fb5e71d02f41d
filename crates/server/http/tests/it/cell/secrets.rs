//! Delivery of secrets to a cell: only to its own node, for its current incarnation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_model::secret::{ProjectSecret, RuntimeSecret};
use muster_model::token::Secret;
use muster_testkit::Database;
use serde_json::{Value, json};

use super::hand::{Hand, approved};
use super::{Scene, stop, with_agent};
use crate::node_wire::agent::{Agent, Answer};
use crate::property;
use crate::secret::{issuer, pushed};

/// Sends a request about a cell.
pub(super) async fn ask(agent: &Agent, cell: &Value, incarnation: i64, what: Value) -> Answer {
    let body =
        json!({"session": agent.session, "cell_id": cell["id"], "incarnation": incarnation, "what": what});
    agent.send("secret", &body).await
}

pub(super) fn file(name: &str) -> Value {
    json!({"file": name})
}

/// Returns the delivered secret as plain text.
#[track_caller]
pub(super) fn told(answer: Answer) -> String {
    let value = answer.ok()["value"].as_str().unwrap().to_owned();
    String::from_utf8(STANDARD.decode(value).unwrap()).unwrap()
}

async fn keep(scene: &Scene, name: &str, value: &str) -> String {
    let body = json!({"name": name, "value": value});
    scene.admin.post(&format!("{}/secrets", scene.base), body).await.ok().text_of("id")
}

/// A platform with a played node, and an active allocation `a` on it. No other node accepts allocations.
pub(super) async fn played(database: Database) -> (Scene, Hand) {
    let scene = Scene::new(database, 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    (scene, hand)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_told_what_its_own_cell_names_and_nothing_else() {
    for database in Database::both() {
        let (scene, hand) = played(database).await;
        let id = keep(&scene, "token", "c4n4ry").await;
        keep(&scene, "unnamed", "x").await;
        let issuer = issuer(&scene.kit, &scene.fixture).await;
        let body = json!({"purpose": "cluster_bootstrap", "name": "gossip"});
        let shared = issuer.post(&format!("{}/runtime-secrets", scene.base), body).await.ok();
        let secrets = json!([{"secret": "token", "file": "by-name"}, {"secret": id, "file": "by-id", "uid": 7},
                             {"secret": shared.body["id"], "file": "gossip"}]);
        let cell = scene.running("shell", "a", json!({"secrets": secrets})).await;
        assert_eq!(told(ask(&hand.agent, &cell, 1, file("by-name")).await), "c4n4ry");
        assert_eq!(told(ask(&hand.agent, &cell, 1, file("by-id")).await), "c4n4ry");
        let gossip = ask(&hand.agent, &cell, 1, file("gossip")).await.ok();
        assert_eq!(gossip["value"], shared.body["value"]);

        let mut refusals = Vec::new();
        let other = approved(&scene, 0).await;
        refusals.push(ask(&other, &cell, 1, file("by-name")).await);
        for incarnation in [0, 2, -1, i64::MAX] {
            refusals.push(ask(&hand.agent, &cell, incarnation, file("by-name")).await);
        }
        for name in ["unnamed", "token", "", "../by-name"] {
            refusals.push(ask(&hand.agent, &cell, 1, file(name)).await);
        }
        refusals.push(ask(&hand.agent, &cell, 1, json!("artifact_pull")).await);
        let never = json!({"id": "cel_01h455vb4pex5vsknk084sn02q"});
        refusals.push(ask(&hand.agent, &never, 1, file("by-name")).await);
        let words: std::collections::BTreeSet<String> =
            refusals.into_iter().map(|answer| answer.refused(404, "not_found")).collect();
        assert_eq!(words.len(), 1, "whatever is wrong, the answer is the same: {words:?}");
        let over = json!({"session": hand.agent.session - 1, "cell_id": cell["id"], "incarnation": 1,
                          "what": file("by-name")});
        hand.agent.send("secret", &over).await.refused(409, "invalid_state");

        let events = scene.told().await;
        assert_eq!(events.iter().filter(|word| *word == "secret.delivered").count(), 3);
        let path = format!("/v1/events?project={}&page_size=200", scene.fixture.id("train"));
        let events = scene.admin.get(&path).await.ok().body;
        let delivered = |event: &&Value| event["type"] == "dev.muster.secret.delivered.v1";
        let first = events["items"].as_array().unwrap().iter().find(delivered).unwrap();
        assert_eq!(
            first["data"],
            json!({"name": "token", "secret_id": id, "revision": 1, "cell_id": cell["id"], "incarnation": 1,
                   "file": "by-name"})
        );
        let entries = scene.admin.get(&format!("/v1/audit?tenant=acme&actor={}", hand.node)).await.ok();
        assert_eq!(entries.body["items"].as_array().unwrap().len(), 3, "{}", entries.text);
        let record = &entries.body["items"][0]["record"];
        assert_eq!((&record["action"], &record["outcome"]), (&json!("secret.deliver"), &json!("succeeded")));
        assert_eq!((&record["actor"]["kind"], &record["target"]["id"]), (&json!("node"), &json!(id)));
        assert!(!entries.text.contains("c4n4ry") && !entries.text.contains(&STANDARD.encode("c4n4ry")));
        property::chain(&scene.admin, "acme").await.unwrap();
        // Refused requests are audited for the operator.
        for node in [hand.node, other.node] {
            let refused = scene.kit.operator().get(&format!("/v1/audit?actor={node}")).await.ok();
            let denied = |item: &&Value| {
                item["record"]["action"] == "secret.deliver" && item["record"]["outcome"] == "denied"
            };
            assert!(
                refused.body["items"].as_array().unwrap().iter().any(|item| denied(&item)),
                "{}",
                refused.text
            );
        }
        drop(hand);
        scene.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incarnation_has_its_time_and_what_is_gone_is_told_nothing() {
    let (scene, hand) = played(Database::sqlite()).await;
    keep(&scene, "token", "first").await;
    let spec = json!({"secrets": [{"secret": "token", "file": "t"}]});
    let cell = scene.running("shell", "a", spec).await;
    let rotate = json!({"value": "second"});
    let rotated = scene.admin.post(&format!("{}/secrets/token/rotate", scene.base), rotate).await.ok();
    assert_eq!(rotated.body["revision"], 2);
    scene.done(scene.act("cells/shell/restart").await).await;
    ask(&hand.agent, &cell, 1, file("t")).await.refused(404, "not_found");
    assert_eq!(told(ask(&hand.agent, &cell, 2, file("t")).await), "second");
    scene.done(scene.act("cells/shell/destroy").await).await;
    ask(&hand.agent, &cell, 2, file("t")).await.refused(404, "not_found");
    drop(hand);
    scene.kit.stop().await;
}

/// Secrets sealed under a removed key must have been resealed before.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_survive_the_rotation_of_their_tenants_key() {
    for database in Database::both() {
        let (scene, hand) = played(database).await;
        keep(&scene, "token", "c4n4ry").await;
        let issuer = issuer(&scene.kit, &scene.fixture).await;
        let body = json!({"purpose": "cluster_bootstrap", "name": "gossip"});
        let shared = issuer.post(&format!("{}/runtime-secrets", scene.base), body).await.ok();
        let secrets =
            json!([{"secret": "token", "file": "t"}, {"secret": shared.body["id"], "file": "gossip"}]);
        let cell = scene.running("shell", "a", json!({"secrets": secrets})).await;
        scene.admin.post("/v1/tenants/acme/rotate-key", json!({})).await.ok();
        let platform = &scene.kit.servers[0].platform;
        muster_jobs::reseal(platform).await.unwrap();
        let lost = "DELETE FROM sealing_keys WHERE key_version = 1 AND owner <> 'platform'
                    AND owner IN (SELECT owner FROM sealing_keys WHERE key_version = 2)";
        scene.kit.store().sabotage(lost).await.unwrap();
        assert_eq!(told(ask(&hand.agent, &cell, 1, file("t")).await), "c4n4ry");
        let gossip = ask(&hand.agent, &cell, 1, file("gossip")).await.ok();
        assert_eq!(gossip["value"], shared.body["value"]);
        // Without that, removing a key loses everything sealed under it: the test detects the difference.
        scene.admin.post("/v1/tenants/acme/rotate-key", json!({})).await.ok();
        let lost = "DELETE FROM sealing_keys WHERE key_version = 2";
        scene.kit.store().sabotage(lost).await.unwrap();
        muster_jobs::reseal(platform).await.unwrap();
        let kept = scene
            .kit
            .store()
            .find_by_name::<ProjectSecret>(scene.fixture.id("train").parse().unwrap(), "token");
        assert_eq!(kept.await.unwrap().unwrap().sealed[..4], [0, 0, 0, 2], "it cannot be sealed anew");
        drop(hand);
        scene.kit.stop().await;
    }
}

async fn by_token(scene: &Scene, token: &str) -> RuntimeSecret {
    let hash = Secret::parse(token).unwrap().hash();
    scene.kit.store().runtime_secret_by_hash(&hash).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_reads_a_cells_image_with_a_credential_that_ends_with_the_incarnation() {
    for database in Database::both() {
        let (scene, hand) = played(database).await;
        pushed(&scene.kit).await;
        let cell = scene.running("shell", "a", json!({})).await;
        let pull = json!("artifact_pull");
        ask(&hand.agent, &cell, 1, pull.clone()).await.refused(404, "not_found");
        let made_from = "UPDATE cells SET artifact_id = '01900000-0000-7000-9000-000000000002'";
        scene.kit.store().sabotage(made_from).await.unwrap();
        let first = told(ask(&hand.agent, &cell, 1, pull.clone()).await);
        assert!(first.starts_with("mst_pull_"));
        let second = told(ask(&hand.agent, &cell, 1, pull.clone()).await);
        assert!(by_token(&scene, &first).await.revoked_at.is_some(), "one that was asked for before is over");
        let kept = by_token(&scene, &second).await;
        assert_eq!((kept.revoked_at, kept.incarnation, kept.name.as_str()), (None, Some(1), "shell"));
        // It only works for that node: not for another node, and not without a certificate.
        let path = "v2/acme.train/base/tags/list";
        let read = async |http: &reqwest::Client, url: String| {
            let request = http.get(url).header("authorization", format!("Bearer {second}"));
            request.send().await.unwrap().status().as_u16()
        };
        let other = approved(&scene, 0).await;
        for (agent, expected) in [(&*hand.agent, 200), (&other, 401)] {
            let url = format!("https://localhost:{}/{path}", agent.address.port());
            assert_eq!(read(&agent.http, url).await, expected);
        }
        let public = format!("http://{}/{path}", scene.kit.servers[0].address);
        assert_eq!(read(&reqwest::Client::new(), public).await, 401);
        scene.done(scene.act("cells/shell/restart").await).await;
        assert!(by_token(&scene, &second).await.revoked_at.is_some(), "its incarnation is over");
        ask(&hand.agent, &cell, 1, pull.clone()).await.refused(404, "not_found");
        let third = told(ask(&hand.agent, &cell, 2, pull.clone()).await);
        assert_eq!(by_token(&scene, &third).await.revoked_at, None);
        scene.done(scene.act("cells/shell/destroy").await).await;
        assert!(by_token(&scene, &third).await.revoked_at.is_some(), "the cell is gone");
        ask(&hand.agent, &cell, 2, pull).await.refused(404, "not_found");
        let events = scene.told().await;
        assert_eq!(events.iter().filter(|word| *word == "runtime_secret.issued").count(), 3);
        drop(hand);
        scene.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_names_what_is_there_and_holds_it_while_it_lives() {
    for database in Database::both() {
        let (scene, hand) = played(database).await;
        let id = keep(&scene, "token", "x").await;
        let serve = format!("/v1/projects/{}/secrets", scene.fixture.id("serve"));
        let foreign =
            scene.admin.post(&serve, json!({"name": "theirs", "value": "x"})).await.ok().text_of("id");
        let issuer = issuer(&scene.kit, &scene.fixture).await;
        let issued = format!("{}/runtime-secrets", scene.base);
        let body = json!({"purpose": "cluster_bootstrap", "name": "gossip"});
        let over = issuer.post(&issued, body).await.ok().text_of("id");
        scene.admin.post(&format!("{issued}/{over}/revoke"), json!({})).await.ok();
        for absent in ["none", "theirs", foreign.as_str(), over.as_str(), "sec_01h455vb4pex5vsknk084sn02q"] {
            let secrets = json!([{"secret": "token", "file": "a"}, {"secret": absent, "file": "b"}]);
            let refused = scene.create("shell", "a", json!({"secrets": secrets})).await;
            let refused = refused.refused(400, "invalid_request");
            assert_eq!(refused.body["errors"][0]["pointer"], "/spec/secrets/1/secret", "{absent}");
        }
        let twice = json!({"secrets": [{"secret": "token", "file": "a"}, {"secret": "token", "file": "a"}]});
        let refused = scene.create("shell", "a", twice).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/spec/secrets/1/file");

        let path = format!("{}/secrets/token", scene.base);
        let spec = json!({"secrets": [{"secret": id, "file": "a"}, {"secret": "token", "file": "b"}]});
        scene.running("shell", "a", spec).await;
        let refused = scene.admin.delete(&path).await.refused(409, "invalid_state");
        assert!(refused.text.contains("shell"), "{}", refused.text);
        scene.admin.get(&path).await.ok();
        scene.done(scene.act("cells/shell/destroy").await).await;
        scene.admin.delete(&path).await.ok();
        drop(hand);
        scene.kit.stop().await;
    }
}

/// The real agent, with simulated cells that take no secrets, creates such a cell anyway.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_with_secrets_is_shown_without_them() {
    let (scene, nodes) = with_agent(Database::sqlite()).await;
    keep(&scene, "token", "c4n4ry").await;
    let spec = json!({"secrets": [{"secret": "token", "file": "t"}]});
    let cell = scene.running("shell", "a", spec).await;
    assert_eq!(cell["spec"]["secrets"][0]["secret"], "token");
    assert!(!cell.to_string().contains("c4n4ry"));
    stop(scene, nodes).await;
}
