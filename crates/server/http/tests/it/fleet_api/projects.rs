//! A project's quota, available capacity and cleanup; and data that its people must not see.

use muster_model::allocation::{Allocation, AllocationState, FailureReason};
use muster_model::node::Capacity;
use muster_testkit::{Answer, Database, Fixture, Kit};
use reqwest::Method;
use serde_json::json;

use super::{allocation, approve, capacity, machine, slots};

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_limits_what_can_be_had_and_is_the_operators_to_set() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (operator, admin) = (kit.operator(), fixture.client(&kit, "project_admin"));
        machine(&kit, "gpu-1", 8).await;
        let path = format!("/v1/projects/{}/quota", fixture.id("train"));
        let none = admin.get(&path).await.ok();
        assert_eq!((none.header("etag"), none.body.get("max_gpus")), ("\"1\"", None));
        assert_eq!(capacity(&admin, "gpus=8").await["quota_left"], json!({}));

        admin.patch(&path, json!({"max_gpus": 100})).await.refused(403, "permission_denied");
        let set = operator.patch(&path, json!({"max_gpus": 2, "max_cpus": 500})).await.ok();
        assert_eq!((&set.body["max_gpus"], &set.body["version"]), (&json!(2), &json!(2)));
        let beyond = capacity(&admin, "gpus=8").await;
        assert_eq!((&beyond["fits_now"], &beyond["reason"]), (&json!(false), &json!("quota")));
        assert_eq!((&beyond["nodes"], &beyond["quota_left"]["gpus"]), (&json!(1), &json!(2)));
        assert_eq!(beyond["nearest"]["change"], "2 GPUs instead of 8");

        let mut tx = kit.store().begin().await.unwrap();
        let taken = Capacity { gpus: 2, ..Capacity::default() };
        assert!(tx.quota_take(fixture.id("train").parse().unwrap(), 1, taken).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(admin.get(&path).await.ok().body["used"]["gpus"], 2);
        let full = capacity(&admin, "gpus=1").await;
        assert_eq!((&full["reason"], full.get("nearest")), (&json!("quota"), None));

        let stale = operator.request(Method::PATCH, &path).header("if-match", "\"1\"");
        operator.send(stale.json(&json!({"max_gpus": 9}))).await.refused(412, "version_mismatch");
        let opened = operator.patch(&path, json!({"unlimited": ["gpus"]})).await.ok();
        assert_eq!((opened.body.get("max_gpus"), &opened.body["max_cpus"]), (None, &json!(500)));
        assert_eq!(capacity(&admin, "gpus=8").await["fits_now"], true);
        let both = operator.patch(&path, json!({"max_gpus": 1, "unlimited": ["gpus"]})).await;
        assert_eq!(both.refused(400, "invalid_request").body["errors"][0]["pointer"], "/unlimited/0");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_request_is_refused_with_its_pointer() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let operator = kit.operator();
    machine(&kit, "gpu-1", 1).await;
    let slot = slots(&kit, kit.store().node_by_name("gpu-1").await.unwrap().unwrap().id).await[0].id;
    let place = |answer: Answer| {
        answer.refused(400, "invalid_request").body["errors"][0]["pointer"].as_str().unwrap().to_owned()
    };
    let week = json!({"expires_in_seconds": 604_801});
    assert_eq!(place(operator.post("/v1/nodes/enrol", week).await), "/expires_in_seconds");
    assert_eq!(place(operator.post("/v1/nodes/enrol", json!({"name": "Gpu 1"})).await), "/name");
    assert_eq!(place(approve(&operator, "gpu-1", "yes").await), "/digest");
    let silent = operator.post(&format!("/v1/slots/{slot}/quarantine"), json!({"reason": ""})).await;
    assert_eq!(place(silent), "/reason");
    assert_eq!(place(operator.get("/v1/nodes?state=gone").await), "query/state");
    let path = format!("/v1/projects/{}", fixture.id("train"));
    assert_eq!(place(operator.get(&format!("{path}/capacity?gpus=256")).await), "query/gpus");
    assert_eq!(place(operator.get(&format!("{path}/capacity?gpu=1")).await), "query/gpu");
    assert_eq!(place(operator.get(&format!("{path}/capacity?shape=vm")).await), "query/shape");
    assert_eq!(place(operator.patch(&format!("{path}/quota"), json!({"max_gpus": -1})).await), "/max_gpus");
    let unknown = json!({"unlimited": ["gpus", "money"]});
    assert_eq!(place(operator.patch(&format!("{path}/quota"), unknown).await), "/unlimited/1");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_see_no_nodes_and_learn_nothing_from_asking() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    machine(&kit, "gpu-1", 1).await;
    for actor in ["tenant_admin", "project_admin", "viewer", "account_with_grant"] {
        let client = fixture.client(&kit, actor);
        let there = client.get("/v1/nodes/gpu-1").await.refused(403, "permission_denied");
        let absent = client.get("/v1/nodes/gpu-2").await.refused(403, "permission_denied");
        assert_eq!(there.text_of("detail"), absent.text_of("detail"));
        for verb in ["drain", "audit", "retire", "cordon"] {
            let there = client.post(&format!("/v1/nodes/gpu-1/{verb}"), json!({})).await;
            let absent = client.post(&format!("/v1/nodes/gpu-2/{verb}"), json!({})).await;
            let answers = (there.refused(403, "permission_denied"), absent.refused(403, "permission_denied"));
            assert_eq!(answers.0.text_of("detail"), answers.1.text_of("detail"), "{verb}");
        }
        client.get("/v1/nodes").await.refused(403, "permission_denied");
        client.get("/v1/nodes/gpu-1/slots").await.refused(403, "permission_denied");
        capacity(&client, "gpus=1").await;
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_allocation_blocks_removal_and_history_is_removed_by_cascade() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let operator = kit.operator();
        let project = format!("/v1/projects/{}", fixture.id("train"));
        operator.patch(&format!("{project}/quota"), json!({"max_gpus": 2})).await.ok();
        let asked = allocation(&fixture, "mine", 1);
        let mut tx = kit.store().begin().await.unwrap();
        tx.allocation_request(&asked).await.unwrap();
        tx.commit().await.unwrap();
        for path in [project.as_str(), "/v1/tenants/acme"] {
            let refused = operator.delete(&format!("{path}?cascade=true")).await.refused(409, "not_empty");
            assert!(refused.text_of("detail").contains("release"), "{}", refused.text);
        }

        let ended = Allocation {
            state: AllocationState::Failed,
            reason: Some(FailureReason::Cancelled),
            ..asked.clone()
        };
        let mut tx = kit.store().begin().await.unwrap();
        tx.allocation_move(&asked, &ended, asked.created_at).await.unwrap();
        let other = Allocation {
            project_id: fixture.id("serve").parse().unwrap(),
            ..allocation(&fixture, "other", 1)
        };
        tx.allocation_request(&other).await.unwrap();
        let ended = Allocation {
            state: AllocationState::Failed,
            reason: Some(FailureReason::Cancelled),
            ..other.clone()
        };
        tx.allocation_move(&other, &ended, other.created_at).await.unwrap();
        tx.commit().await.unwrap();
        let refused = operator.delete(&project).await.refused(409, "not_empty");
        assert!(refused.text_of("detail").contains("1 allocations"), "{}", refused.text);
        let removed = operator.delete(&format!("{project}?cascade=true")).await.ok();
        assert_eq!(removed.body["removed"]["allocations"], 1);
        let removed = operator.delete("/v1/tenants/acme?cascade=true").await.ok();
        assert_eq!(removed.body["removed"]["allocations"], 1);
        kit.stop().await;
    }
}
