//! Allocations and operations over HTTP. This test plays the node at the database; the agent and its protocol have their
//! own tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_db::{Store, StoreError, TaskReport};
use muster_ids::{AllocationId, Env, NodeId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::node::Capacity;
use muster_model::task::TaskState;
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_testkit::{Answer, Client, Database, Fixture, Kit};
use muster_wire::act::{Act, Prepare, Resize, SandboxResources};
use muster_wire::task::Findings;
use serde_json::{Value, json};

use crate::fleet_api::machine;

/// Creates an allocation that is active according to the database.
pub(crate) async fn active(kit: &Kit, project: &str, name: &str) -> AllocationId {
    let env = Env::system();
    let project = kit.store().project_lookup(project.parse().unwrap()).await.unwrap().unwrap();
    let capacity = Capacity { gpus: 0, cpus: 1, memory_mb: 1, disk_mb: 1 };
    let (tenant_id, now) = (project.tenant_id, env.now());
    let requested = Allocation {
        incarnation: 1,
        ..Allocation::requested(env.id(), tenant_id, project.id, name, capacity, now)
    };
    let witness = Witness {
        id: env.id(),
        subject_id: requested.id.uuid(),
        transition: Transition::Active,
        kind: WitnessKind::Witnessed,
        incarnation: 1,
        operation_id: None,
        node_id: None,
        task_id: None,
        actor_id: None,
        checked: json!([]),
        result: json!({}),
        at: env.now(),
    };
    let mut tx = kit.store().begin().await.unwrap();
    assert!(tx.quota_take(project.id, 1, requested.capacity).await.unwrap());
    tx.allocation_request(&requested).await.unwrap();
    tx.witness_insert(&witness).await.unwrap();
    let mut before = requested.clone();
    for state in [AllocationState::Placing, AllocationState::Provisioning, AllocationState::Active] {
        let after = Allocation { state, active_witness_id: Some(witness.id), ..before.clone() };
        tx.allocation_move(&before, &after, env.now()).await.unwrap();
        before = Allocation { version: before.version + 1, ..after };
    }
    tx.commit().await.unwrap();
    requested.id
}

/// Plays the node's agent until dropped.
pub(crate) struct Agent(tokio::task::JoinHandle<()>);

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Agent {
    pub(crate) fn of(kit: &Kit, node: NodeId) -> Self {
        let store = kit.store().clone();
        Self(tokio::spawn(async move {
            let known = store.node_lookup(node).await.unwrap().unwrap();
            let mut tx = store.begin().await.unwrap();
            let (inventory, digest) = (known.inventory, known.inventory_digest);
            let now = Env::system().now();
            tx.node_hello(node, "0.1.0", inventory, &digest, true, now).await.unwrap();
            tx.heartbeat_note(&[node], now + jiff::SignedDuration::from_hours(24)).await.unwrap();
            tx.commit().await.unwrap();
            let mut places = BTreeMap::new();
            loop {
                serve(&store, node, &mut places).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }))
    }
}

async fn serve(store: &Store, node: NodeId, places: &mut BTreeMap<AllocationId, (i64, SandboxResources)>) {
    let now = Env::system().now();
    let session = store.node_standing(node, now).await.unwrap().unwrap().session;
    for task in store.task_deliver(node, session, now, 8).await.unwrap() {
        let mut findings = Findings::default();
        if let Some(allocation) = task.allocation_id {
            match muster_engine::parse_act(&task).unwrap() {
                Act::Prepare(Prepare { resources, .. }) | Act::Resize(Resize { resources, .. }) => {
                    places.insert(allocation, (task.incarnation, resources));
                }
                Act::Destroy(_) => {
                    places.remove(&allocation);
                }
                _ => {}
            }
            if let Some((incarnation, held)) = places.get(&allocation) {
                findings.present = true;
                findings.incarnation = *incarnation;
                findings.devices = held.devices.clone();
                findings.amount = held.amount;
            }
        }
        let report = TaskReport {
            id: task.id,
            incarnation: task.incarnation,
            generation: task.generation,
            state: TaskState::Done,
            result: json!(findings),
            message: None,
        };
        let mut tx = store.begin().await.unwrap();
        tx.operation_wake(task.operation_id, now).await.unwrap();
        match tx.task_report(node, &report, now).await {
            Ok(()) => tx.commit().await.unwrap(),
            Err(StoreError::Fenced) => tx.rollback().await,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) struct Scene {
    pub(crate) kit: Kit,
    pub(crate) admin: Client,
    pub(crate) operator: Client,
    pub(crate) node: NodeId,
    pub(crate) base: String,
    pub(crate) project: String,
    _agent: Option<Agent>,
}

impl Scene {
    pub(crate) async fn new(database: Database, with_agent: bool) -> Self {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let node = machine(&kit, "machine", 4).await;
        Self {
            admin: fixture.client(&kit, "tenant_admin"),
            operator: kit.operator(),
            node,
            base: format!("/v1/projects/{}/allocations", fixture.id("train")),
            project: fixture.id("train").to_owned(),
            _agent: with_agent.then(|| Agent::of(&kit, node)),
            kit,
        }
    }

    pub(crate) async fn create(&self, body: Value) -> Answer {
        self.admin.post(&self.base, body).await
    }

    /// Waits for the started operation to end.
    pub(crate) async fn ended(&self, started: &Answer) -> Value {
        let id = started.body["operation"]["id"].as_str().unwrap_or_else(|| panic!("{:#}", started.body));
        let answer = self.admin.get(&format!("/v1/operations/{id}?wait_seconds=20")).await.ok();
        answer.body
    }

    async fn get(&self, name: &str) -> Value {
        self.admin.get(&format!("{}/{name}", self.base)).await.ok().body
    }
}

macro_rules! on_both {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                super::$name(super::Database::sqlite()).await;
            }
            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                super::$name(super::Database::postgres()).await;
            }
        }
    )*};
}

pub(crate) use on_both;

on_both! {
    an_allocation_lives_and_is_given_back
    accepted_operation_emits_events_and_is_audited_and_listed
}

async fn an_allocation_lives_and_is_given_back(database: Database) {
    let scene = Scene::new(database, true).await;
    let started = scene.create(json!({"name": "a", "gpus": 2, "cpus": 2})).await.ok();
    assert_eq!(started.status, 202);
    let ended = scene.ended(&started).await;
    assert_eq!(ended["state"], "succeeded", "{ended:#}");
    assert_eq!(ended["witnesses"][0]["transition"], "active");
    let allocation = scene.get("a").await;
    assert_eq!((&allocation["state"], &allocation["evidence"]), (&json!("active"), &json!("witnessed")));
    assert_eq!(allocation["held"]["gpus"], 2);

    let resized =
        scene.admin.post(&format!("{}/a/resize", scene.base), json!({"gpus": 3, "cpus": 1})).await.ok();
    assert_eq!(scene.ended(&resized).await["state"], "succeeded");
    assert_eq!(
        scene.get("a").await["capacity"],
        json!({"gpus": 3, "cpus": 1, "memory_mb": 1024, "disk_mb": 1024})
    );
    let restarted = scene.admin.post(&format!("{}/a/restart", scene.base), json!({})).await.ok();
    assert_eq!(scene.ended(&restarted).await["state"], "succeeded");
    assert_eq!(scene.get("a").await["incarnation"], 2);

    let timeline = scene.admin.get(&format!("{}/a/timeline", scene.base)).await.ok().body;
    let states: Vec<&str> =
        timeline["phases"].as_array().unwrap().iter().map(|phase| phase["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["requested", "placing", "provisioning", "active", "provisioning", "active"]);
    assert!(timeline["phases"].as_array().unwrap().iter().all(|phase| phase["milliseconds"].is_i64()));

    let id = allocation["id"].as_str().unwrap().to_owned();
    let released =
        scene.admin.post(&format!("{}/a/release", scene.base), json!({"reason": "done"})).await.ok();
    assert_eq!(scene.ended(&released).await["state"], "succeeded");
    assert_eq!(scene.get(&id).await["state"], "released");
    assert_eq!(scene.admin.get(&format!("{}/a", scene.base)).await.status, 404, "its name is free again");
    let again = scene.admin.post(&format!("{}/{id}/release", scene.base), json!({})).await;
    assert_eq!((again.status, again.code()), (409, "invalid_state"));
    let node = scene.operator.get(&format!("/v1/nodes/{}", scene.node)).await.ok().body;
    assert_eq!(node["free"], node["total"]);
    scene.kit.stop().await;
}

async fn accepted_operation_emits_events_and_is_audited_and_listed(database: Database) {
    let scene = Scene::new(database, true).await;
    let started = scene.create(json!({"name": "a", "gpus": 1})).await.ok();
    let id = started.body["operation"]["id"].as_str().unwrap().to_owned();
    scene.ended(&started).await;
    scene.kit.sealed().await;
    let events =
        scene.admin.get(&format!("/v1/events?project={}&page_size=200", scene.project)).await.ok().body;
    let told: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["data"]["operation_id"] == json!(id))
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    for word in [
        "allocation.requested",
        "allocation.placed",
        "operation.step",
        "allocation.active",
        "operation.ended",
    ] {
        assert!(told.contains(&format!("dev.muster.{word}.v1").as_str()), "{word} is missing: {told:?}");
    }
    let audit =
        scene.admin.get(&format!("/v1/audit?project={}&page_size=200", scene.project)).await.ok().body;
    let about: Vec<&Value> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| {
            entry["record"]["action"] == "allocation.create"
                && entry["record"]["detail"]["operation_id"] == json!(id)
        })
        .collect();
    assert_eq!(about.len(), 2, "its beginning and its end: {about:#?}");
    let list =
        scene.admin.get(&format!("/v1/operations?project={}&state=succeeded", scene.project)).await.ok();
    assert!(list.body["items"].as_array().unwrap().iter().any(|operation| operation["id"] == json!(id)));
    let subject = started.body["operation"]["subject_id"].as_str().unwrap();
    let list = scene.operator.get(&format!("/v1/operations?subject={subject}")).await.ok();
    assert_eq!(list.body["items"].as_array().unwrap().len(), 1);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_the_plan_and_does_nothing() {
    let scene = Scene::new(Database::sqlite(), false).await;
    for cordoned in [false, true] {
        if cordoned {
            let cordon = format!("/v1/nodes/{}/cordon", scene.node);
            scene.operator.post(&cordon, json!({"reason": "a test"})).await.ok();
        }
        let shown = scene.create(json!({"name": "a", "gpus": 4, "dry_run": true})).await.ok().body;
        assert_eq!(shown["plan"]["fits_now"], json!(!cordoned));
        assert_eq!(shown["plan"]["short"].as_str().is_some(), cordoned, "it says why not");
        assert_eq!(shown["plan"]["locks"], json!(["a"]), "it has no id before it is made");
        assert!(shown.get("operation").is_none());
        let steps: Vec<&str> = shown["plan"]["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["name"].as_str().unwrap())
            .collect();
        assert_eq!(steps, ["claim", "prepare", "verify_active"]);
    }
    let list = scene.admin.get(&scene.base).await.ok().body;
    assert_eq!(list["items"], json!([]));
    let quota = scene.admin.get(&format!("/v1/projects/{}/quota", scene.project)).await.ok().body;
    assert_eq!(quota["used"]["gpus"], 0);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_of_no_cpu_or_no_memory_is_refused_by_its_field() {
    let scene = Scene::new(Database::sqlite(), true).await;
    for (field, amount) in
        [("cpus", json!({"name": "a", "cpus": 0})), ("memory_mb", json!({"name": "a", "memory_mb": 0}))]
    {
        let refused = scene.create(amount).await;
        let pointer = format!("/{field}");
        assert_eq!(
            (refused.status, refused.body["errors"][0]["pointer"].as_str()),
            (400, Some(pointer.as_str()))
        );
    }
    let started = scene.create(json!({"name": "a"})).await.ok();
    assert_eq!(scene.ended(&started).await["state"], "succeeded");
    for field in ["cpus", "memory_mb"] {
        let refused = scene.admin.post(&format!("{}/a/resize", scene.base), json!({field: 0})).await;
        assert_eq!(refused.status, 400, "{field}");
    }
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_request_is_refused_with_its_reason() {
    let scene = Scene::new(Database::sqlite(), true).await;
    let past = json!({"name": "a", "wait_until": "2020-01-01T00:00:00Z"});
    let refused = scene.create(past).await;
    assert_eq!((refused.status, refused.body["errors"][0]["pointer"].as_str()), (400, Some("/wait_until")));
    let request =
        scene.operator.request(reqwest::Method::PATCH, &format!("/v1/projects/{}/quota", scene.project));
    scene.operator.send(request.header("if-match", "*").json(&json!({"max_gpus": 2}))).await.ok();
    let refused = scene.create(json!({"name": "a", "gpus": 3})).await;
    assert_eq!((refused.status, refused.code()), (409, "quota_exceeded"));

    // A failed operation is in the audit log as failed, and the log is readable.
    let most = scene.create(json!({"name": "most", "cpus": 63})).await.ok();
    assert_eq!(scene.ended(&most).await["state"], "succeeded");
    let started = scene.create(json!({"name": "none", "cpus": 2})).await.ok();
    let ended = scene.ended(&started).await;
    assert_eq!(
        (&ended["reason"], &ended["message"]),
        (&json!("no_capacity"), &json!("needs 2 CPUs; most free on one node: 1"))
    );
    scene.kit.sealed().await;
    let audit =
        scene.admin.get(&format!("/v1/audit?project={}&page_size=200", scene.project)).await.ok().body;
    assert!(audit["items"].as_array().unwrap().iter().any(|entry| entry["record"]["outcome"] == "failed"));

    let started = scene.create(json!({"name": "a", "gpus": 1, "protected": true})).await.ok();
    scene.ended(&started).await;
    let refused = scene.create(json!({"name": "a"})).await;
    assert_eq!((refused.status, refused.code()), (409, "name_taken"));
    let refused = scene.admin.post(&format!("{}/a/release", scene.base), json!({})).await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_state"), "it is protected");
    let refused = scene.admin.post(&format!("{}/a/resize", scene.base), json!({"gpus": 1})).await;
    assert_eq!(refused.status, 400, "it has this size already");
    let statement = json!({"statement": "I looked at it myself"});
    let refused = scene.operator.post(&format!("{}/a/attest", scene.base), statement).await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_state"), "what can be seen is not attested");
    let refused = scene.operator.post(&format!("/v1/nodes/{}/retire", scene.node), json!({})).await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_state"), "it must be drained first");
    let operation = started.body["operation"]["id"].as_str().unwrap();
    let refused = scene.admin.post(&format!("/v1/operations/{operation}/cancel"), json!({})).await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_state"), "it has ended");
    let refused =
        scene.admin.post(&format!("/v1/operations/{operation}/resolve"), json!({"action": "retry"})).await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_state"), "it is not blocked");
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_line_has_a_place_and_can_be_cancelled_or_released() {
    let scene = Scene::new(Database::sqlite(), true).await;
    let held = scene.create(json!({"name": "held", "gpus": 1})).await.ok();
    assert_eq!(scene.ended(&held).await["state"], "succeeded");
    let ask = |name: &str| json!({"name": name, "gpus": 4, "wait_until": "2199-01-01T00:00:00Z"});
    let first = scene.create(ask("first")).await.ok();
    let second = scene.create(ask("second")).await.ok();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(scene.get("second").await["queue_position"], 1);
    let capacity =
        scene.admin.get(&format!("/v1/projects/{}/capacity?gpus=4", scene.project)).await.ok().body;
    assert_eq!((&capacity["fits_now"], &capacity["waiting"]), (&json!(false), &json!(2)));
    let id = first.body["operation"]["id"].as_str().unwrap();
    scene.admin.post(&format!("/v1/operations/{id}/cancel"), json!({"reason": "not needed"})).await.ok();
    assert_eq!(scene.ended(&first).await["state"], "cancelled");
    let released = scene.admin.post(&format!("{}/second/release", scene.base), json!({})).await.ok();
    assert_eq!(scene.ended(&released).await["state"], "succeeded");
    assert_eq!(scene.ended(&second).await["state"], "superseded");
    scene.kit.sealed().await;
    let events =
        scene.admin.get(&format!("/v1/events?project={}&page_size=200", scene.project)).await.ok().body;
    let told = events["items"].as_array().unwrap().iter().any(|event| event["data"]["state"] == "superseded");
    assert!(told, "its end is told too");
    let quota = scene.admin.get(&format!("/v1/projects/{}/quota", scene.project)).await.ok().body;
    assert_eq!(quota["used"]["allocations"], 1, "the one that is held");
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_allocation_is_released_by_the_platform_and_blocked_while_it_is_protected() {
    let scene = Arc::new(Scene::new(Database::sqlite(), true).await);
    for (name, protected) in [("kept", true), ("gone", false)] {
        let soon = (Env::system().now() + jiff::SignedDuration::from_secs(2)).to_string();
        let body = json!({"name": name, "expires_at": soon, "protected": protected});
        let started = scene.create(body).await.ok();
        assert_eq!(scene.ended(&started).await["state"], "succeeded");
    }
    let soon = (Env::system().now() + jiff::SignedDuration::from_mins(30)).to_string();
    scene.ended(&scene.create(json!({"name": "soon", "expires_at": soon})).await.ok()).await;
    let gone = scene.get("gone").await["id"].as_str().unwrap().to_owned();
    let mut state = String::new();
    for _ in 0..300 {
        state = scene.get(&gone).await["state"].as_str().unwrap().to_owned();
        if state == "released" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(state, "released");
    // The protected one stays, with the reason on the allocation and on a blocked operation.
    let mut kept = Value::Null;
    for _ in 0..300 {
        kept = scene.get("kept").await;
        if kept["reason"] == "protected" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!((&kept["state"], &kept["reason"]), (&json!("active"), &json!("protected")), "{kept}");
    let blocked =
        scene.admin.get(&format!("/v1/operations?project={}&state=blocked", scene.project)).await.ok();
    assert_eq!(blocked.body["items"][0]["kind"], "allocation.release", "{}", blocked.text);
    // It is audited and emitted as an event like a person's command, and an owner with half an hour left is warned once.
    scene.kit.sealed().await;
    let events = format!("/v1/events?project={}&page_size=200", scene.project);
    let events = scene.admin.get(&events).await.ok().body;
    assert_eq!(events.to_string().matches("\"reason\":\"it has expired\"").count(), 2, "{events}");
    let warned = |name: &str| {
        let items = events["items"].as_array().unwrap().iter();
        let expiring = "dev.muster.allocation.expiring.v1";
        items.filter(|event| event["type"] == expiring && event["data"]["name"] == name).count()
    };
    assert_eq!(warned("soon"), 1, "{events}");
    assert_eq!(scene.get("soon").await["state"], "active");
    // Without protection it is released immediately.
    let request = scene.admin.request(reqwest::Method::PATCH, &format!("{}/kept", scene.base));
    scene.admin.send(request.header("if-match", "*").json(&json!({"protected": false}))).await.ok();
    let kept = kept["id"].as_str().unwrap();
    for _ in 0..300 {
        state = scene.get(kept).await["state"].as_str().unwrap().to_owned();
        if state == "released" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(state, "released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_is_retired() {
    let scene = Scene::new(Database::sqlite(), true).await;
    let started = scene.create(json!({"name": "a", "gpus": 1})).await.ok();
    scene.ended(&started).await;
    let node = format!("/v1/nodes/{}", scene.node);
    let body = json!({"deadline_seconds": 1, "force": true, "reason": "new disks"});
    let drained = scene.operator.post(&format!("{node}/drain"), body).await.ok();
    let id = drained.body["operation"]["id"].as_str().unwrap().to_owned();
    let refused = scene.operator.post(&format!("{node}/drain"), json!({})).await;
    assert_eq!((refused.status, refused.code()), (409, "invalid_state"), "one is under way");
    assert_eq!(scene.admin.get(&format!("/v1/operations/{id}")).await.status, 404, "it is the platform's");
    let ended = scene.operator.get(&format!("/v1/operations/{id}?wait_seconds=25")).await.ok().body;
    assert_eq!(ended["state"], "succeeded", "{ended:#}");
    assert_eq!(ended["items"][0]["state"], "succeeded");
    let retired = scene.operator.post(&format!("{node}/retire"), json!({})).await.ok();
    let id = retired.body["operation"]["id"].as_str().unwrap();
    let ended = scene.operator.get(&format!("/v1/operations/{id}?wait_seconds=25")).await.ok().body;
    assert_eq!(ended["state"], "succeeded", "{ended:#}");
    assert_eq!(scene.operator.get(&node).await.ok().body["state"], "retired");
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_the_credential_that_waits_is_revoked() {
    let scene = Scene::new(Database::sqlite(), false).await;
    let started = scene.create(json!({"name": "a", "gpus": 1})).await.ok();
    let id = started.body["operation"]["id"].as_str().unwrap().to_owned();
    let token = scene.admin.post("/v1/tokens", json!({"name": "short"})).await.ok();
    let waiter = scene.admin.with_token(&token.text_of("secret"));
    let waiting =
        tokio::spawn(async move { waiter.get(&format!("/v1/operations/{id}?wait_seconds=25")).await });
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let revoked = std::time::Instant::now();
    scene.admin.post(&format!("/v1/tokens/{}/revoke", token.text_of("id")), json!({})).await.ok();
    waiting.await.unwrap().refused(401, "unauthenticated");
    assert!(revoked.elapsed() < std::time::Duration::from_secs(8), "it took {:?}", revoked.elapsed());
    scene.kit.stop().await;
}
