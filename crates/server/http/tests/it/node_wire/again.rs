//! Repeated joins: after a lost response, and for a node that lost its certificate. And certificate rotation: at most two
//! are valid at a time, and only until the newer one is used.

use std::time::{Duration, Instant};

use futures::future::join_all;
use muster_db::Fault;
use muster_testkit::{Database, Kit};
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::agent::{Agent, Answer, client, csr, enrol, join_body, send};
use super::refusals::retire;

fn same(key: &KeyPair) -> KeyPair {
    KeyPair::from_pem(&key.serialize_pem()).unwrap()
}

async fn try_join(kit: &Kit, token: &str, key: &KeyPair) -> Answer {
    let http = client(&kit.authority().await, None);
    send(&http, kit.nodes_address(0), "join", &join_body(token, &csr(key))).await.unwrap()
}

async fn nodes(kit: &Kit) -> usize {
    kit.store().heartbeat_list().await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_whose_answer_was_lost_is_repeated_with_the_same_key_and_no_other() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let token = enrol(kit.store(), None, 10).await;
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let lost = try_join(&kit, &token, &key).await.ok();
        let words = try_join(&kit, &token, &other).await.refused(401, "unauthenticated");
        let agent = Agent::join_with(&kit, 0, &token, same(&key)).await;
        assert_eq!((json!(agent.node), json!(agent.name)), (lost["node_id"].clone(), lost["name"].clone()));
        assert_ne!(json!(agent.certificate), lost["certificate"]);
        assert_eq!(nodes(&kit).await, 1);
        agent.hello(json!([])).await.ok();
        kit.sealed().await;
        let audit = kit.operator().get("/v1/audit?action=node.join").await.ok();
        assert_eq!(audit.body["items"].as_array().unwrap().len(), 1, "the node joined once");

        // Also when the server itself does not learn whether the commit succeeded.
        for _ in 0..10 {
            let (token, key) = (enrol(kit.store(), None, 10).await, KeyPair::generate().unwrap());
            kit.store().faults().arm(Fault::UnheardCommit);
            let before = nodes(&kit).await;
            let answer = try_join(&kit, &token, &key).await;
            kit.store().faults().clear();
            assert_eq!(nodes(&kit).await, before + 1);
            try_join(&kit, &token, &key).await.ok();
            assert_eq!(nodes(&kit).await, before + 1);
            // A concurrent write of the server may have been hit instead.
            if answer.status == 503 {
                break;
            }
        }

        // After its expiry the token is invalid, as it would have been anyway.
        kit.store().sabotage("UPDATE enrolments SET expires_at = created_at").await.unwrap();
        assert_eq!(try_join(&kit, &token, &key).await.refused(401, "unauthenticated"), words);
        kit.stop().await;
    }
}

/// Returns the responses to twenty machines with one token, all with one key or each with its own.
async fn twenty(kit: &Kit, name: Option<&str>, one_key: bool) -> Vec<Answer> {
    let token = enrol(kit.store(), name, 10).await;
    let authority = kit.authority().await;
    let key = KeyPair::generate().unwrap();
    let attempts = (0..20).map(|_| {
        let key = if one_key { same(&key) } else { KeyPair::generate().unwrap() };
        let (http, body) = (client(&authority, None), join_body(&token, &csr(&key)));
        async move { send(&http, kit.nodes_address(0), "join", &body).await.unwrap() }
    });
    join_all(attempts).await
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_joins_at_once_with_one_token_and_one_key_are_one_node() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        for (round, name) in [(1, None), (2, Some("rack-7")), (3, None), (4, Some("rack-6"))] {
            let answers: Vec<Value> = twenty(&kit, name, true).await.into_iter().map(Answer::ok).collect();
            assert!(answers.iter().all(|answer| answer["node_id"] == answers[0]["node_id"]), "{answers:?}");
            assert!(answers.iter().all(|answer| answer["name"] == answers[0]["name"]), "{answers:?}");
            assert_eq!(nodes(&kit).await, round);
        }
        // With a name fixed by the token, a late join must not be distinguishable from a name taken through another
        // token.
        let answers = twenty(&kit, Some("rack-8"), false).await;
        let late: Vec<Answer> = answers.into_iter().filter(|answer| answer.status != 200).collect();
        assert_eq!(late.len(), 19);
        late.into_iter().for_each(|answer| drop(answer.refused(401, "unauthenticated")));
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_enrolled_again_has_a_new_certificate_and_the_old_one_opens_nothing() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        let (first, key) = (enrol(kit.store(), None, 10).await, KeyPair::generate().unwrap());
        let mut old = Agent::join_with(&kit, 0, &first, same(&key)).await;
        old.session = old.hello(json!([])).await.ok()["session"].as_i64().unwrap();
        let enrolled = operator.post("/v1/nodes/enrol", json!({"node": old.name})).await.ok();
        assert_eq!(enrolled.text_of("node_id"), old.node.to_string());
        assert_eq!(enrolled.text_of("name"), old.name);
        assert!(enrolled.text_of("command").ends_with(" --force"));
        let token = enrolled.text_of("token");
        old.poll(0).await.ok();

        let (answer, joined) = tokio::join!(async { (old.poll(10).await, Instant::now()) }, async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let new = Agent::join_with(&kit, 0, &token, KeyPair::generate().unwrap()).await;
            (new, Instant::now())
        });
        let mut new = joined.0;
        assert_eq!((new.node, new.name.as_str()), (old.node, old.name.as_str()));
        assert!(answer.0.refused(401, "unauthenticated").contains("replaced"), "in the middle of a poll");
        let after = answer.1.duration_since(joined.1);
        assert!(after < Duration::from_secs(1), "it was told {after:?} after");
        assert!(old.hello(json!([])).await.refused(401, "unauthenticated").contains("replaced"));
        let renew = json!({"csr": csr(&old.key)});
        old.send("renew", &renew).await.refused(401, "unauthenticated");
        // Nor does the old machine's token restore it.
        try_join(&kit, &first, &key).await.refused(401, "unauthenticated");
        try_join(&kit, &token, &KeyPair::generate().unwrap()).await.refused(401, "unauthenticated");

        new.session = new.hello(json!([])).await.ok()["session"].as_i64().unwrap();
        assert!(new.session > old.session);
        new.poll(0).await.ok();
        assert_eq!(nodes(&kit).await, 1);
        kit.sealed().await;
        let events = operator.get("/v1/events?page_size=200").await.ok();
        assert!(events.text.contains("dev.muster.node.rejoined.v1"), "{}", events.text);
        assert_eq!(events.text.matches("dev.muster.node.joined.v1").count(), 1);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_node_that_is_there_is_enrolled_again_and_it_keeps_what_it_has() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    let agent = Agent::start(&kit, 0).await;
    for (also, pointer) in
        [(json!({"name": "x"}), "/name"), (json!({"labels": {}}), "/labels"), (json!({}), "/node")]
    {
        let mut body = json!({"node": if pointer == "/node" { "gpu-9" } else { "gpu-1" }});
        body.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
        let refused = operator.post("/v1/nodes/enrol", body).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], pointer);
    }
    let by_id = operator.post("/v1/nodes/enrol", json!({"node": agent.node})).await.ok();
    retire(&kit, &agent).await;
    operator.post("/v1/nodes/enrol", json!({"node": agent.node})).await.refused(409, "invalid_state");
    let key = KeyPair::generate().unwrap();
    let refused = try_join(&kit, &by_id.text_of("token"), &key).await.refused(409, "invalid_state");
    assert!(refused.contains("retired"), "{refused}");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_for_another_key_ends_the_one_before_when_it_is_used_and_not_sooner() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let first = Agent::start(&kit, 0).await;
        let authority = kit.authority().await;
        let renewed = async |key: KeyPair| {
            let answer = first.send("renew", &json!({"csr": csr(&key)})).await.ok();
            let certificate = answer["certificate"].as_str().unwrap().to_owned();
            let http = client(&authority, Some((&key, &certificate)));
            Agent { key, certificate, http, name: first.name.clone(), ..first }
        };
        // Two responses are lost; their certificates were never used, and the last one is valid.
        let lost = renewed(KeyPair::generate().unwrap()).await;
        first.poll(0).await.ok();
        let second = renewed(KeyPair::generate().unwrap()).await;
        first.poll(0).await.ok();
        assert!(lost.poll(0).await.refused(401, "unauthenticated").contains("replaced"));
        first.poll(0).await.ok();
        second.poll(0).await.ok();
        assert!(first.poll(0).await.refused(401, "unauthenticated").contains("replaced"));
        second.poll(0).await.ok();
        // With the same key there is nothing to replace.
        let renew = json!({"csr": csr(&second.key)});
        second.send("renew", &renew).await.ok();
        second.poll(0).await.ok();
        kit.stop().await;
    }
}
