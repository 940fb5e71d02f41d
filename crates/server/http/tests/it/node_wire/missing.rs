//! Approved GPUs that are missing.

use muster_testkit::{Database, Kit};
use serde_json::{Value, json};

use super::agent::{Agent, machine};
use crate::fleet_api::approve;

const GONE: &str = "its device no longer exists";

/// Returns the operator's view of the node: free GPUs, and the state and reason of each slot.
async fn seen(kit: &Kit, agent: &Agent) -> (i64, Vec<(String, Value)>) {
    let node = kit.operator().get(&format!("/v1/nodes/{}", agent.node)).await.ok();
    let slots = node.body["slots"].as_array().unwrap();
    let slots = slots.iter().map(|slot| (slot["state"].as_str().unwrap().to_owned(), slot["reason"].clone()));
    (node.body["free"]["gpus"].as_i64().unwrap(), slots.collect())
}

fn approved() -> (String, Value) {
    ("approved".to_owned(), Value::Null)
}

fn quarantined(why: &str) -> (String, Value) {
    ("quarantined".to_owned(), json!(why))
}

async fn found(agent: &Agent, gpus: i64) {
    let body = json!({"session": agent.session, "inventory": machine(gpus)});
    agent.send("inventory", &body).await.ok();
}

async fn told(kit: &Kit, event_type: &str) -> Vec<Value> {
    kit.sealed().await;
    let events = kit.operator().get("/v1/events?page_size=200").await.ok();
    let events = events.body["items"].as_array().unwrap().clone();
    events.into_iter().filter(|event| event["type"] == event_type).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_gone_is_nobodys_until_it_is_there_again() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        let mut agent = Agent::start(&kit, 0).await;
        let digest = machine(2).hardware_digest();
        approve(&operator, &agent.name, &digest).await.ok();
        assert_eq!(seen(&kit, &agent).await, (2, vec![approved(), approved()]));

        found(&agent, 1).await;
        assert_eq!(seen(&kit, &agent).await, (1, vec![approved(), quarantined(GONE)]));
        let node = operator.get(&format!("/v1/nodes/{}", agent.node)).await.ok();
        assert_eq!((&node.body["state"], &node.body["needs_approval"]), (&json!("ready"), &json!(true)));
        assert_eq!(node.body["difference"][0]["what"], "gpu GPU-0001", "it is shown for approval as well");
        let slot = node.body["slots"][1]["id"].as_str().unwrap().to_owned();
        let word = json!({"reason": "I saw it there"});
        let refused = operator.post(&format!("/v1/slots/{slot}/approve"), word).await;
        assert!(refused.refused(409, "invalid_state").text_of("detail").contains("not on the node"));
        // A repeated report emits no event.
        found(&agent, 1).await;
        let events = told(&kit, "dev.muster.slot.quarantined.v1").await;
        assert_eq!(events.len(), 1);
        assert_eq!(
            (&events[0]["data"]["device"], &events[0]["data"]["reason"]),
            (&json!("GPU-0001"), &json!(GONE))
        );
        assert_eq!(events[0]["subject"], format!("/v1/slots/{slot}"));

        // It is back with the next hello.
        agent.session = agent.hello(json!([])).await.ok()["session"].as_i64().unwrap();
        assert_eq!(seen(&kit, &agent).await, (2, vec![approved(), approved()]));
        assert_eq!(told(&kit, "dev.muster.slot.found.v1").await.len(), 1);
        assert_eq!(
            operator.get(&format!("/v1/nodes/{}", agent.node)).await.ok().body["needs_approval"],
            false
        );

        // Other reasons for its quarantine remain.
        let reason = json!({"reason": "fan"});
        operator.post(&format!("/v1/slots/{slot}/quarantine"), reason.clone()).await.ok();
        found(&agent, 1).await;
        agent.hello(json!([])).await.ok();
        assert_eq!(seen(&kit, &agent).await, (1, vec![approved(), quarantined("fan")]));
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_written_off_and_comes_back_is_discovered_anew() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    let mut agent = Agent::start(&kit, 0).await;
    approve(&operator, &agent.name, &machine(2).hardware_digest()).await.ok();
    found(&agent, 1).await;
    approve(&operator, &agent.name, &machine(1).hardware_digest()).await.ok();
    let retired = ("retired".to_owned(), Value::Null);
    assert_eq!(seen(&kit, &agent).await, (1, vec![approved(), retired]));
    agent.session = agent.hello(json!([])).await.ok()["session"].as_i64().unwrap();
    let discovered = ("discovered".to_owned(), Value::Null);
    assert_eq!(seen(&kit, &agent).await, (1, vec![approved(), discovered]));
    // Missing again before it was approved: no operator can make it usable.
    found(&agent, 1).await;
    let slot = kit.store().slot_list(agent.node).await.unwrap()[1].id;
    let word = json!({"reason": "I saw it there"});
    operator.post(&format!("/v1/slots/{slot}/approve"), word).await.refused(409, "invalid_state");
    found(&agent, 2).await;
    approve(&operator, &agent.name, &machine(2).hardware_digest()).await.ok();
    assert_eq!(seen(&kit, &agent).await, (2, vec![approved(), approved()]));
    kit.stop().await;
}
