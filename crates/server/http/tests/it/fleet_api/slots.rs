//! Slots: quarantine, and release from it.

use muster_ids::Env;
use muster_model::node::Capacity;
use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;

use super::{approve, capacity, hold, inventory, join, machine, slots};

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_slot_is_nobodys_until_an_operator_says_so() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (operator, viewer) = (kit.operator(), fixture.client(&kit, "viewer"));
        let id = machine(&kit, "gpu-1", 2).await;
        let known = slots(&kit, id).await;
        let (first, second) = (format!("/v1/slots/{}", known[0].id), format!("/v1/slots/{}", known[1].id));
        let sick = operator.post(&format!("{first}/quarantine"), json!({"reason": "ECC"})).await.ok();
        assert_eq!((&sick.body["state"], &sick.body["reason"]), (&json!("quarantined"), &json!("ECC")));
        assert_eq!(capacity(&viewer, "gpus=2").await["nearest"]["change"], "1 GPU instead of 2");
        assert_eq!(capacity(&viewer, "shape=baremetal").await["reason"], "no_whole_node");
        let node = operator.get("/v1/nodes/gpu-1").await.ok();
        assert_eq!((&node.body["total"]["gpus"], &node.body["free"]["gpus"]), (&json!(2), &json!(1)));

        // A held one stays with its holder, and neither a release nor a wipe frees it.
        let holder = hold(&kit, &fixture, id, known[1].id).await;
        let held = operator.post(&format!("{second}/quarantine"), json!({"reason": "fan"})).await.ok();
        assert_eq!(held.text_of("allocation_id"), holder.to_string());
        let mut tx = kit.store().begin().await.unwrap();
        let now = Env::system().now();
        tx.node_lock(id).await.unwrap();
        tx.slot_quarantine_of(holder, "not wiped", now).await.unwrap();
        let amount = Capacity { gpus: 1, cpus: 1, memory_mb: 1, disk_mb: 1 };
        tx.unhold(id, holder, &amount, now).await.unwrap();
        tx.slot_clean_of(holder, now).await.unwrap();
        tx.node_recount(id).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(capacity(&viewer, "gpus=1").await["reason"], "gpus");

        let listed = operator.get("/v1/nodes/gpu-1/slots").await.ok();
        assert_eq!(listed.body["items"][1]["reason"], "fan");
        let back = operator.post(&format!("{second}/approve"), json!({"reason": "fan replaced"})).await.ok();
        assert_eq!(back.body["state"], "approved");
        assert_eq!(capacity(&viewer, "gpus=1").await["fits_now"], true);
        let again = operator.post(&format!("{second}/approve"), json!({"reason": "again"})).await;
        again.refused(409, "invalid_state");
        // Approving hardware does not release a quarantined slot.
        approve(&operator, "gpu-1", &inventory("gpu-1", 2).hardware_digest()).await.ok();
        assert_eq!(operator.get("/v1/nodes/gpu-1").await.ok().body["slots"][0]["state"], "quarantined");

        kit.sealed().await;
        let events = operator.get("/v1/events?page_size=200").await.ok();
        let told = events.body["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|event| event["type"] == "dev.muster.slot.approved.v1")
            .unwrap();
        assert_eq!(
            (&told["data"]["was"], &told["data"]["was_because"]),
            (&json!("quarantined"), &json!("fan"))
        );
        assert!(told["data"]["on_the_word_of"].as_str().unwrap().starts_with("usr_"));
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_of_a_node_that_nobody_approved_is_not_approved_alone() {
    let kit = Kit::sqlite().await;
    let id = join(&kit, "gpu-1", &inventory("gpu-1", 1)).await;
    let slot = slots(&kit, id).await[0].id;
    let path = format!("/v1/slots/{slot}/approve");
    kit.operator().post(&path, json!({"reason": "it looks fine"})).await.refused(409, "invalid_state");
    kit.stop().await;
}
