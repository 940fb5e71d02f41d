//! The fleet as operators and tenants see it. Machines join by a row here: what agents say is tested on its own.

use jiff::SignedDuration;
use muster_ids::{AllocationId, ClaimId, NodeId, SlotId, World};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState, FailureReason};
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::placement::{Fit, Strategy};
use muster_model::token::Secret;
use muster_node_api::inventory::{Cpus, Gpu, Inventory};
use muster_store::{Hold, Joining};
use muster_testkit::{Answer, Client, Database, Fixture, Kit};
use reqwest::Method;
use serde_json::{Value, json};

/// A machine with so many GPUs, half of them in each of two islands.
pub(crate) fn inventory(name: &str, gpus: i64) -> Inventory {
    let gpu = |ordinal: i64| Gpu {
        ordinal,
        uuid: format!("GPU-{name}-{ordinal}"),
        model: "NVIDIA H200".to_owned(),
        memory_mb: 143_771,
        pci: None,
        numa: ordinal * 2 / gpus,
        island: ordinal * 2 / gpus,
        nvlinks: 18,
        mig: false,
        vfs: None,
        driver: None,
    };
    Inventory {
        hostname: name.to_owned(),
        architecture: "x86_64".to_owned(),
        cpus: Cpus { count: 64, sockets: 2, model: "EPYC".to_owned() },
        memory_mb: 512_000,
        disk_mb: 2_000_000,
        gpus: (0..gpus).map(gpu).collect(),
        pretended: true,
        ..Inventory::default()
    }
}

/// Writes down that such a machine joined, as its agent's first request would.
pub(crate) async fn join(kit: &Kit, name: &str, found: &Inventory) -> NodeId {
    let world = World::system();
    let (id, now): (NodeId, _) = (world.id(), world.now());
    let joining = Joining {
        id,
        name: name.to_owned(),
        labels: [("rack".to_owned(), name.to_owned())].into(),
        inventory: json!(found),
        inventory_digest: found.hardware_digest(),
        agent_version: "0.1.0".to_owned(),
        certificate_until: now + SignedDuration::from_hours(24),
        at: now,
    };
    let mut tx = kit.store().begin().await.unwrap();
    tx.node_join(&joining).await.unwrap();
    for gpu in &found.gpus {
        let slot = Slot {
            id: world.id(),
            node_id: id,
            kind: "gpu".to_owned(),
            device: gpu.uuid.clone(),
            ordinal: gpu.ordinal,
            model: gpu.model.clone(),
            memory_mb: gpu.memory_mb,
            numa: gpu.numa,
            island: gpu.island,
            state: SlotState::Discovered,
            reason: None,
            allocation_id: None,
            version: 1,
        };
        tx.slot_upsert(&slot, now).await.unwrap();
    }
    tx.commit().await.unwrap();
    id
}

/// Approves what a machine has.
pub(crate) async fn approve(operator: &Client, node: &str, digest: &str) -> Answer {
    let request = operator.request(Method::POST, &format!("/v1/nodes/{node}/approve"));
    let request = request.header("idempotency-key", World::system().uuid().to_string());
    operator.send(request.header("if-match", "*").json(&json!({"digest": digest}))).await
}

/// A machine that takes allocations.
pub(crate) async fn machine(kit: &Kit, name: &str, gpus: i64) -> NodeId {
    let found = inventory(name, gpus);
    let id = join(kit, name, &found).await;
    approve(&kit.operator(), name, &found.hardware_digest()).await.ok();
    id
}

/// The machine has other hardware from now on.
async fn refit(kit: &Kit, node: NodeId, found: &Inventory) {
    let mut tx = kit.store().begin().await.unwrap();
    let now = World::system().now();
    tx.node_hello(node, "0.1.0", json!(found), &found.hardware_digest(), true, now).await.unwrap();
    tx.commit().await.unwrap();
}

async fn slots(kit: &Kit, node: NodeId) -> Vec<Slot> {
    kit.store().slot_list(node).await.unwrap()
}

fn allocation(fixture: &Fixture, name: &str, gpus: i64) -> Allocation {
    let world = World::system();
    Allocation {
        id: world.id(),
        tenant_id: fixture.id("acme").parse().unwrap(),
        project_id: fixture.id("train").parse().unwrap(),
        name: name.to_owned(),
        labels: Default::default(),
        shape: AllocationShape::GpuSlice,
        capacity: Capacity { gpus, cpus: 1, memory_mb: 1, disk_mb: 1 },
        strategy: Strategy::Pack,
        state: AllocationState::Requested,
        node_id: None,
        node_name: None,
        incarnation: 0,
        held: Capacity::default(),
        reason: None,
        message: None,
        active_witness_id: None,
        wiped_witness_id: None,
        operation_id: None,
        wait_until: None,
        expires_at: None,
        protected: false,
        created_at: world.now(),
        updated_at: world.now(),
        version: 1,
    }
}

/// Has an allocation hold one slot of a node and a little of the rest, as the engine would.
async fn hold(kit: &Kit, fixture: &Fixture, node: NodeId, slot: SlotId) -> AllocationId {
    let asked = allocation(fixture, "holder", 1);
    let mut tx = kit.store().begin().await.unwrap();
    tx.allocation_request(&asked).await.unwrap();
    let hold = Hold {
        node,
        allocation: asked.id,
        slots: vec![slot],
        amount: asked.capacity,
        holders: 1,
        exclusive: false,
        fit: Fit::of(&[], false),
        at: asked.created_at,
    };
    tx.hold(&hold, &[World::system().id::<ClaimId>()]).await.unwrap();
    tx.node_recount(node).await.unwrap();
    tx.commit().await.unwrap();
    asked.id
}

async fn capacity(client: &Client, query: &str) -> Value {
    client.get(&format!("/v1/projects/acme.train/capacity?{query}")).await.ok().body
}

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
        assert!(command.contains(&token) && command.contains(&enrolled.text_of("ca_sha256")));

        let again = operator.post_with_key("/v1/nodes/enrol", body, "k").await.ok();
        assert_eq!((again.text_of("id"), &again.body["secret_shown_once"]), (id, &json!(true)));
        assert!(again.body.get("token").is_none() && again.body.get("command").is_none());

        let hash = Secret::parse(&token).unwrap().hash();
        let kept = kit.store().enrolment_by_hash(&hash, World::system().now()).await.unwrap().unwrap();
        assert_eq!((kept.node_name.as_deref(), kept.labels["rack"].as_str()), (Some("gpu-1"), "7"));

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
        // Both the GPUs and the CPUs are too many, so that less of one thing alone would not do.
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

        // What is gone and still held is not written off behind its holder's back.
        let gone = slots(&kit, id).await.pop().unwrap();
        let holder = hold(&kit, &fixture, id, gone.id).await;
        let refused =
            approve(&operator, "gpu-1", &found.hardware_digest()).await.refused(409, "invalid_state");
        assert!(refused.text_of("detail").contains(&holder.to_string()), "{}", refused.text);
        let mut tx = kit.store().begin().await.unwrap();
        tx.node_lock(id).await.unwrap();
        let amount = Capacity { gpus: 1, cpus: 1, memory_mb: 1, disk_mb: 1 };
        tx.unhold(id, holder, &amount, World::system().now()).await.unwrap();
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

    // A node that is being emptied is not opened under the engine's feet.
    let mut tx = kit.store().begin().await.unwrap();
    tx.node_set_draining(id, true, true, World::system().now()).await.unwrap();
    tx.commit().await.unwrap();
    let refused = operator.post(&format!("{path}/uncordon"), json!({})).await.refused(409, "invalid_state");
    assert!(refused.text_of("detail").contains("emptied"));

    kit.sealed().await;
    let events = operator.get("/v1/events").await.ok().text;
    assert!(events.contains("dev.muster.node.cordoned.v1") && events.contains("firmware"));
    assert!(events.contains("dev.muster.node.uncordoned.v1"));
    kit.stop().await;
}

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

        // One that is held stays with its holder, and neither its release nor a wipe sets it free.
        let holder = hold(&kit, &fixture, id, known[1].id).await;
        let held = operator.post(&format!("{second}/quarantine"), json!({"reason": "fan"})).await.ok();
        assert_eq!(held.text_of("allocation_id"), holder.to_string());
        let mut tx = kit.store().begin().await.unwrap();
        let now = World::system().now();
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
        // The approval of hardware says nothing about a slot that somebody quarantined.
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
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_in_a_request_is_named_by_its_place() {
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
        client.get("/v1/nodes").await.refused(403, "permission_denied");
        client.get("/v1/nodes/gpu-1/slots").await.refused(403, "permission_denied");
        capacity(&client, "gpus=1").await;
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_a_living_allocation_is_not_removed_and_history_goes_with_a_cascade() {
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
