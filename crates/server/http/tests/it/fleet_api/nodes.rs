//! Nodes: enrolment, approval, cordons, lists.

use muster_ids::{Env, NodeId};
use muster_model::node::Capacity;
use muster_model::token::Secret;
use muster_testkit::{Answer, Database, Fixture, Kit};
use reqwest::Method;
use serde_json::json;

use super::{approve, capacity, hold, inventory, join, machine, refit, slots};

#[tokio::test(flavor = "multi_thread")]
async fn a_right_to_join_shows_its_token_once_and_opens_nothing_else() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        let body = json!({"name": "gpu-1", "labels": {"rack": "7"}, "expires_in_seconds": 600});
        let enrolled = operator.post_with_key("/v1/nodes/enrol", body.clone(), "k").await.ok();
        assert_eq!(enrolled.status, 201);
        let (id, token) = (enrolled.text_of("id"), enrolled.text_of("token"));
        assert!(id.starts_with("enr_") && token.starts_with("mst_join_"));
        assert_eq!(enrolled.text_of("ca_sha256").len(), 64);
        let command = enrolled.text_of("command");
        assert!(command.starts_with("muster agent join --server https://"), "{command}");
        assert!(!command.contains(&token) && command.contains(&enrolled.text_of("ca_sha256")));

        let again = operator.post_with_key("/v1/nodes/enrol", body, "k").await.ok();
        assert_eq!((again.text_of("id"), &again.body["secret_shown_once"]), (id, &json!(true)));
        assert!(again.body.get("token").is_none());

        let hash = Secret::parse(&token).unwrap().hash();
        let kept = kit.store().enrolment_by_hash(&hash, Env::system().now()).await.unwrap().unwrap();
        assert_eq!((kept.node_name.as_deref(), kept.labels.0["rack"].as_str()), (Some("gpu-1"), "7"));

        let bearer = kit.client_of(0, &token).get("/v1/whoami").await.refused(401, "unauthenticated");
        assert!(bearer.text_of("detail").contains("muster agent join"));
        kit.sealed().await;
        for told in ["/v1/events", "/v1/audit"] {
            let told = operator.get(told).await.ok();
            assert!(!told.text.contains(&token[..16]), "the token was told: {}", told.text);
        }
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hardware_is_approved_by_what_was_seen_and_then_it_is_capacity() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (operator, viewer) = (kit.operator(), fixture.client(&kit, "viewer"));
        let found = inventory("gpu-1", 8);
        let id = join(&kit, "gpu-1", &found).await;
        operator.post("/v1/nodes/enrol", json!({"name": "gpu-1"})).await.refused(409, "name_taken");

        let seen = operator.get("/v1/nodes/gpu-1").await.ok();
        assert_eq!((seen.text_of("id"), seen.header("etag")), (id.to_string(), "\"1\""));
        assert_eq!((&seen.body["state"], &seen.body["needs_approval"]), (&json!("enrolling"), &json!(true)));
        assert_eq!(seen.body["inventory"]["gpus"].as_array().unwrap().len(), 8);
        assert_eq!(seen.body["slots"][0]["state"], "discovered");
        assert!(seen.body.get("difference").is_none(), "nothing was approved that it could differ from");
        assert_eq!(capacity(&viewer, "gpus=1").await["reason"], "no_node");

        let refused = approve(&operator, "gpu-1", &"0".repeat(64)).await.refused(409, "invalid_state");
        assert!(refused.text_of("detail").contains(&found.hardware_digest()));
        let approved = approve(&operator, "gpu-1", &seen.text_of("inventory_digest")).await.ok();
        assert_eq!((&approved.body["state"], approved.header("etag")), (&json!("ready"), "\"2\""));
        let total = json!({"gpus": 8, "cpus": 64, "memory_mb": 512_000, "disk_mb": 2_000_000});
        assert_eq!((&approved.body["total"], &approved.body["free"]), (&total, &total));

        let there = capacity(&viewer, "gpus=8&cpus=64").await;
        assert_eq!(
            (&there["fits_now"], &there["nodes"], &there["largest"]),
            (&json!(true), &json!(1), &total)
        );
        assert_eq!(there["by_gpus"][3], json!({"gpus": 4, "nodes": 1, "in_one_island": 1}));
        assert_eq!(there["by_gpus"][4], json!({"gpus": 5, "nodes": 1, "in_one_island": 0}));
        let too_many = capacity(&viewer, "gpus=16").await;
        assert_eq!((&too_many["fits_now"], &too_many["reason"]), (&json!(false), &json!("gpus")));
        assert_eq!(too_many["nearest"]["change"], "8 GPUs instead of 16");
        // Both the GPUs and the CPUs are too many, so that reducing only one would not suffice.
        let nearest = capacity(&viewer, "gpus=16&cpus=99&shape=baremetal").await["nearest"].take();
        assert_eq!(nearest["change"], "8 GPUs instead of 16, 64 CPUs instead of 99");
        assert_eq!(nearest["shape"], "baremetal");
        assert!(!there.to_string().contains("gpu-1"), "a tenant is told no node's name");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_hardware_is_shown_by_what_changed_and_waits_for_another_approval() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let operator = kit.operator();
        let id = machine(&kit, "gpu-1", 4).await;
        let mut found = inventory("gpu-1", 4);
        let was = found.hardware_digest();
        found.gpus.pop();
        found.memory_mb -= 65_536;
        refit(&kit, id, &found).await;

        let seen = operator.get("/v1/nodes/gpu-1").await.ok();
        assert_eq!((&seen.body["state"], &seen.body["needs_approval"]), (&json!("ready"), &json!(true)));
        let what: Vec<&str> = seen.body["difference"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["what"].as_str().unwrap())
            .collect();
        assert_eq!(what, ["gpu GPU-gpu-1-3", "memory_mb"]);
        approve(&operator, "gpu-1", &was).await.refused(409, "invalid_state");

        // A missing but held device is not written off without its holder.
        let gone = slots(&kit, id).await.pop().unwrap();
        let holder = hold(&kit, &fixture, id, gone.id).await;
        let refused =
            approve(&operator, "gpu-1", &found.hardware_digest()).await.refused(409, "invalid_state");
        assert!(refused.text_of("detail").contains(&holder.to_string()), "{}", refused.text);
        let mut tx = kit.store().begin().await.unwrap();
        tx.node_lock(id).await.unwrap();
        let amount = Capacity { gpus: 1, cpus: 1, memory_mb: 1, disk_mb: 1 };
        tx.unhold(id, holder, &amount, Env::system().now()).await.unwrap();
        tx.node_recount(id).await.unwrap();
        tx.commit().await.unwrap();

        let stale =
            operator.request(Method::POST, "/v1/nodes/gpu-1/approve").header("idempotency-key", "stale");
        let stale = stale.header("if-match", "\"1\"").json(&json!({"digest": found.hardware_digest()}));
        operator.send(stale).await.refused(412, "version_mismatch");
        let path = format!("/v1/nodes/{id}");
        let request =
            operator.request(Method::POST, &format!("{path}/approve")).header("idempotency-key", "now");
        let version = operator.get(&path).await.ok().header("etag").to_owned();
        let request = request.header("if-match", version).json(&json!({"digest": found.hardware_digest()}));
        let approved = operator.send(request).await.ok();
        assert_eq!(approved.body["free"]["gpus"], 3);
        assert_eq!(approved.body["free"]["memory_mb"], 512_000 - 65_536);
        let shown = operator.get(&path).await.ok();
        assert!(shown.body.get("difference").is_none());
        assert_eq!(shown.body["slots"][3]["state"], "retired");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordoned_node_takes_nothing_until_it_is_opened_again() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let (operator, admin) = (kit.operator(), fixture.client(&kit, "project_admin"));
    let id = machine(&kit, "gpu-1", 4).await;
    let path = format!("/v1/nodes/{id}");
    let cordoned = operator.post("/v1/nodes/gpu-1/cordon", json!({"reason": "firmware"})).await.ok();
    assert_eq!((&cordoned.body["state"], &cordoned.body["version"]), (&json!("cordoned"), &json!(3)));
    assert_eq!(capacity(&admin, "gpus=1").await["reason"], "no_node");
    operator.post(&format!("{path}/cordon"), json!({})).await.refused(409, "invalid_state");
    operator.post(&format!("{path}/uncordon"), json!({})).await.ok();
    assert_eq!(capacity(&admin, "gpus=1").await["fits_now"], true);
    operator.post(&format!("{path}/uncordon"), json!({})).await.refused(409, "invalid_state");

    // A draining node cannot be uncordoned while the engine works on it.
    let mut tx = kit.store().begin().await.unwrap();
    tx.node_set_draining(id, true, true, Env::system().now()).await.unwrap();
    tx.commit().await.unwrap();
    let refused = operator.post(&format!("{path}/uncordon"), json!({})).await.refused(409, "invalid_state");
    assert!(refused.text_of("detail").contains("draining"));

    kit.sealed().await;
    let events = operator.get("/v1/events").await.ok().text;
    assert!(events.contains("dev.muster.node.cordoned.v1") && events.contains("firmware"));
    assert!(events.contains("dev.muster.node.uncordoned.v1"));
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_listed_by_state_and_label_and_found_by_name_or_id() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        for name in ["gpu-1", "gpu-2", "gpu-3"] {
            join(&kit, name, &inventory(name, 1)).await;
        }
        approve(&operator, "gpu-2", &inventory("gpu-2", 1).hardware_digest()).await.ok();
        let names = |answer: Answer| -> Vec<String> {
            let items = answer.ok().body["items"].as_array().unwrap().clone();
            items.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(operator.get("/v1/nodes?state=enrolling").await), ["gpu-1", "gpu-3"]);
        assert_eq!(names(operator.get("/v1/nodes?labels=rack%3Dgpu-3").await), ["gpu-3"]);
        let first = operator.get("/v1/nodes?page_size=2").await.ok();
        assert!(first.body["items"][0].get("inventory").is_none(), "a list does not carry every screw");
        let next = format!("/v1/nodes?page_size=2&page_token={}", first.text_of("next_page_token"));
        assert_eq!(names(operator.get(&next).await), ["gpu-3"]);
        let labelled = operator.patch("/v1/nodes/gpu-3", json!({"labels": {"row": "b"}})).await.ok();
        assert_eq!(labelled.body["labels"], json!({"row": "b"}));
        assert_eq!(names(operator.get("/v1/nodes?labels=row%3Db").await), ["gpu-3"]);
        operator.get("/v1/nodes/gpu-4").await.refused(404, "not_found");
        let counts = kit.store().node_count().await.unwrap();
        let ready = counts.iter().find(|count| count.state == "ready").unwrap();
        assert_eq!((counts.len(), ready.nodes, ready.gpus, ready.gpus_free), (2, 1, 1, 1));
        kit.stop().await;
    }
}

/// Callers without the permission learn nothing about which nodes there are: the answer for an absent one is the same.
#[tokio::test(flavor = "multi_thread")]
async fn outsiders_are_refused_alike_for_nodes_that_exist_and_that_do_not() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let known = machine(&kit, "machine", 1).await.to_string();
    let absent = Env::system().id::<NodeId>().to_string();
    for actor in ["tenant_admin", "project_admin", "viewer", "other_tenant_admin"] {
        let client = fixture.client(&kit, actor);
        for action in ["drain", "audit", "retire"] {
            let mut answers = Vec::new();
            for node in [known.as_str(), absent.as_str(), "no-such-name"] {
                let refused = client.post(&format!("/v1/nodes/{node}/{action}"), json!({})).await;
                let mut body = refused.refused(403, "permission_denied").body;
                for differs in ["correlation_id", "instance"] {
                    body.as_object_mut().unwrap().remove(differs);
                }
                answers.push(body.to_string().replace(node, "NODE"));
            }
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{actor}: {action}: {answers:#?}");
        }
    }
    kit.stop().await;
}
