//! Work: delivered to the agent of the current session, once the node has no stale copies.

use std::time::{Duration, Instant};

use jiff::SignedDuration;
use muster_db::Fault;
use muster_engine::StoredAct;
use muster_ids::{AllocationId, Env, OperationId, TaskId};
use muster_model::Project;
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::node::Capacity;
use muster_model::task::{Task, TaskState};
use muster_testkit::{Database, Kit};
use muster_wire::act::{Act, OwnedAllocation, Prepare, SandboxResources};
use muster_wire::task::Amount;
use serde_json::{Value, json};

use super::agent::{Agent, machine};

/// Queues a task for a node, as the engine would.
async fn queue(kit: &Kit, agent: &Agent, allocation: Option<AllocationId>) -> TaskId {
    let env = Env::system();
    let now = env.now();
    let amount = Amount { cpus: 1, memory_mb: 2, disk_mb: 3 };
    let act = Act::Prepare(Prepare {
        allocation: OwnedAllocation {
            allocation_id: allocation.unwrap_or_else(|| env.id()),
            tenant_id: env.id(),
            project_id: env.id(),
        },
        resources: SandboxResources { devices: vec!["GPU-0000".to_owned()], amount },
        exclusive: false,
    });
    let StoredAct { kind, allocation_id, payload } = StoredAct::from_act(&act).unwrap();
    let task = Task {
        id: env.id(),
        node_id: agent.node,
        operation_id: env.id::<OperationId>(),
        key: "prepare".to_owned(),
        kind,
        allocation_id,
        incarnation: 1,
        generation: 3,
        payload,
        state: TaskState::Queued,
        result: None,
        message: None,
        correlation_id: "a-thread".to_owned(),
        queued_at: now,
        delivered_at: None,
        finished_at: None,
        expires_at: now + SignedDuration::from_mins(5),
    };
    let mut tx = kit.store().begin().await.unwrap();
    tx.task_queue(&task).await.unwrap();
    tx.commit().await.unwrap();
    task.id
}

fn report(task: TaskId, generation: i64) -> Value {
    let findings = json!({"present": true, "incarnation": 1, "devices": ["GPU-0000"],
                          "amount": {"cpus": 1, "memory_mb": 2, "disk_mb": 3}, "residue": []});
    json!({"task_id": task, "incarnation": 1, "generation": generation, "ending": "done", "findings": findings})
}

async fn state_of(kit: &Kit, task: TaskId) -> TaskState {
    kit.store().task_lookup(task).await.unwrap().unwrap().state
}

fn ids(work: &Value) -> Vec<String> {
    let tasks = work["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_says_hello_gets_work_and_reports_on_both_databases() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        kit.store().meter().start();
        let agent = Agent::start(&kit, 0).await;
        assert_eq!(agent.poll(0).await.ok()["tasks"], json!([]));
        let slots = kit.store().slot_list(agent.node).await.unwrap();
        assert_eq!(slots.iter().map(|slot| slot.state.as_str()).collect::<Vec<_>>(), ["discovered"; 2]);

        let started = Instant::now();
        let (work, task) = tokio::join!(agent.poll(10), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let task = queue(&kit, &agent, None).await;
            kit.servers[0].platform.fleet.wake(agent.node);
            task
        });
        let work = work.ok();
        assert!(started.elapsed() < Duration::from_secs(2), "it was woken, not timed out");
        assert_eq!(ids(&work), [task.to_string()]);
        assert_eq!(work["tasks"][0]["act"]["resources"]["devices"], json!(["GPU-0000"]));
        assert_eq!(agent.poll(0).await.ok()["tasks"], json!([]), "it was handed out once");

        let reports = json!({"session": agent.session, "reports": [report(task, 3)]});
        assert_eq!(agent.send("report", &reports).await.ok()["refused"], json!([]));
        assert_eq!(state_of(&kit, task).await, TaskState::Done);
        let result = kit.store().task_lookup(task).await.unwrap().unwrap().result.unwrap();
        assert_eq!(result["devices"], json!(["GPU-0000"]));

        let renewed = agent.send("renew", &json!({"csr": super::agent::csr(&agent.key)})).await.ok();
        assert_eq!(renewed["renew_after_seconds"], 12 * 3600);
        assert_ne!(renewed["certificate"], json!(agent.certificate));
        let held = kit.store().meter().longest_held();
        assert!(held.as_millis() < 50, "a transaction was held for {held:?} outside the database");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joined_at_one_replica_works_with_another() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let mut agent = Agent::start(&kit, 0).await;
    agent.address = kit.nodes_address(1);
    let started = Instant::now();
    // Queued without a notification to the second replica: its own poll finds it.
    let (work, task) = tokio::join!(agent.poll(10), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        queue(&kit, &agent, None).await
    });
    assert_eq!(ids(&work.ok()), [task.to_string()]);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    agent.address = kit.nodes_address(0);
    let reports = json!({"session": agent.session, "reports": [report(task, 3)]});
    assert_eq!(agent.send("report", &reports).await.ok()["refused"], json!([]));
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_report_is_refused_and_counted_and_a_repeated_one_is_neither() {
    let kit = Kit::sqlite().await;
    let (agent, other) = (Agent::start(&kit, 0).await, Agent::start(&kit, 0).await);
    let task = queue(&kit, &agent, None).await;
    assert_eq!(ids(&agent.poll(0).await.ok()), [task.to_string()]);
    let say = async |agent: &Agent, generation| {
        let body = json!({"session": agent.session, "reports": [report(task, generation)]});
        agent.send("report", &body).await.ok()["refused"].clone()
    };
    let stale = || kit.servers[0].platform.metrics.stale_reports.get();
    assert_eq!(say(&agent, 2).await, json!([task]), "an older generation");
    assert_eq!(say(&other, 3).await, json!([task]), "another node's task");
    assert_eq!((stale(), state_of(&kit, task).await), (2, TaskState::Delivered));
    assert_eq!(say(&agent, 3).await, json!([]));
    assert_eq!(say(&agent, 3).await, json!([]), "the same again, because the answer was not heard");
    assert_eq!(stale(), 2);
    let unknown: TaskId = Env::system().id();
    let body = json!({"session": agent.session, "reports": [report(unknown, 3)]});
    assert_eq!(agent.send("report", &body).await.ok()["refused"], json!([unknown]));
    let metrics = kit.operator().get("/metrics").await;
    assert!(metrics.text.contains("muster_stale_reports_total 3"), "{}", metrics.text);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_of_an_older_session_is_delivered_to_the_next() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let mut agent = Agent::start(&kit, 0).await;
        let task = queue(&kit, &agent, None).await;
        assert_eq!(ids(&agent.poll(0).await.ok()), [task.to_string()]);
        let again = async |agent: &mut Agent| {
            agent.session = agent.hello(json!([])).await.ok()["session"].as_i64().unwrap();
            ids(&agent.poll(0).await.ok())
        };
        assert_eq!(again(&mut agent).await, [task.to_string()]);
        // An agent admitted just before its successor gets nothing either.
        agent.session = agent.hello(json!([])).await.ok()["session"].as_i64().unwrap();
        let now = Env::system().now();
        let late = kit.store().task_deliver(agent.node, agent.session - 1, now, 16).await.unwrap();
        assert!(late.is_empty(), "{late:?}");
        assert_eq!(ids(&agent.poll(0).await.ok()), [task.to_string()]);
        // Mutation check: without its guard the test fails.
        kit.store().faults().arm(Fault::Skip("TASK_REQUEUE"));
        assert!(again(&mut agent).await.is_empty());
        kit.stop().await;
    }
}

/// Creates a live allocation on the node, with incarnation 1.
async fn allocation_on(kit: &Kit, agent: &Agent) -> Allocation {
    kit.operator().post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    let made = kit.operator().post("/v1/tenants/acme/projects", json!({"name": "train"})).await.ok();
    let project: Project =
        kit.store().project_lookup(made.text_of("id").parse().unwrap()).await.unwrap().unwrap();
    let env = Env::system();
    let now = env.now();
    let capacity = Capacity { cpus: 1, memory_mb: 1, ..Capacity::default() };
    let asked = Allocation::requested(env.id(), project.tenant_id, project.id, "a", capacity, now);
    let placing = Allocation { state: AllocationState::Placing, version: 2, ..asked.clone() };
    let placed = Allocation {
        state: AllocationState::Provisioning,
        node_id: Some(agent.node),
        incarnation: 1,
        version: 3,
        ..asked.clone()
    };
    let mut tx = kit.store().begin().await.unwrap();
    tx.allocation_request(&asked).await.unwrap();
    tx.allocation_move(&asked, &placing, now).await.unwrap();
    tx.allocation_move(&placing, &placed, now).await.unwrap();
    tx.commit().await.unwrap();
    placed
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_copies_keep_a_node_from_work_until_they_are_destroyed() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let mut agent = Agent::start(&kit, 0).await;
        let living = allocation_on(&kit, &agent).await;
        let task = queue(&kit, &agent, Some(living.id)).await;
        let own = json!({"allocation_id": living.id, "incarnation": 1});
        let older = json!({"allocation_id": living.id, "incarnation": 0});
        let stranger = json!({"allocation_id": Env::system().id::<AllocationId>(), "incarnation": 1});

        let welcome = agent.hello(json!([own, older, stranger, stranger])).await.ok();
        let mut stale_allocations = welcome["stale_allocations"].as_array().unwrap().clone();
        stale_allocations.sort_by_key(|place| place["incarnation"].as_i64());
        assert_eq!(stale_allocations, [older, stranger]);
        agent.session = welcome["session"].as_i64().unwrap();
        assert_eq!(agent.poll(1).await.ok()["tasks"], json!([]), "heard, but given nothing");
        assert_eq!(kit.servers[0].platform.metrics.stale_copies.get(), 2);

        let welcome = agent.hello(json!([own])).await.ok();
        assert_eq!(welcome["stale_allocations"], json!([]));
        agent.session = welcome["session"].as_i64().unwrap();
        assert_eq!(ids(&agent.poll(0).await.ok()), [task.to_string()]);
        kit.sealed().await;
        let events = kit.operator().get("/v1/events?page_size=200").await.ok();
        assert!(events.text.contains("dev.muster.node.orphans_found.v1"), "{}", events.text);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hardware_that_differs_from_what_was_approved_is_told_once() {
    let kit = Kit::sqlite().await;
    let agent = Agent::start(&kit, 0).await;
    let node = kit.store().node_lookup(agent.node).await.unwrap().unwrap();
    let mut tx = kit.store().begin().await.unwrap();
    let now = Env::system().now();
    tx.node_approve(node.id, Capacity::default(), &node.inventory_digest, node.version, now).await.unwrap();
    tx.commit().await.unwrap();
    let say = async |gpus| {
        let body = json!({"session": agent.session, "inventory": machine(gpus)});
        agent.send("inventory", &body).await.ok()["needs_approval"].clone()
    };
    assert_eq!([say(2).await, say(3).await, say(3).await], [false, true, true]);
    let slots = kit.store().slot_list(agent.node).await.unwrap();
    assert_eq!((slots.len(), slots[2].device.as_str()), (3, "GPU-0002"));
    kit.sealed().await;
    let events = kit.operator().get("/v1/events?page_size=200").await.ok();
    let told: Vec<&Value> = events.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "dev.muster.node.inventory_changed.v1")
        .collect();
    assert_eq!(told.len(), 1);
    assert!(told[0]["data"]["changes"][0]["what"].as_str().unwrap().contains("GPU-0002"), "{}", told[0]);
    kit.stop().await;
}
