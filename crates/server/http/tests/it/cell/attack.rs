//! Attacks on cells through the API and the agent protocol. Those on names and archives inside a node are with the crates
//! that create cells; those on certificates in `node_wire`.

use muster_testkit::Database;
use muster_wire::act::{Act, Prepare, SandboxResources};
use muster_wire::task::{Findings, Task, TaskKind};
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::hand::{Hand, approved, poll, report};
use super::{Scene, stop, until, with_agent};
use crate::node_wire::agent::{Agent, client};
use crate::stream::upgrading;

/// An actor with access to both projects cannot reach a cell of one through the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_of_another_project_is_not_there() {
    let (scene, nodes) = with_agent(Database::sqlite()).await;
    let cell = scene.running("shell", "a", json!({})).await;
    let allocation = cell["allocation_id"].as_str().unwrap();
    let key = json!({"name": "k", "public_key": super::KEY});
    let key = scene.admin.post(&format!("{}/ssh-keys", scene.base), key).await.ok().text_of("id");
    let serve = format!("/v1/projects/{}", scene.fixture.id("serve"));
    let network = cell["network_id"].as_str().unwrap();
    let sibling = scene.fixture.client(&scene.kit, "sibling_project_admin");
    for client in [&scene.admin, &sibling] {
        for reference in [cell["id"].as_str().unwrap(), "shell"] {
            let path = format!("{serve}/cells/{reference}");
            client.get(&path).await.refused(404, "not_found");
            client.get(&format!("{path}/archived-logs")).await.refused(404, "not_found");
            let command = json!({"command": {"command": ["cat"]}});
            client.post(&format!("{path}/streams"), command).await.refused(404, "not_found");
            for verb in ["restart", "destroy", "logs"] {
                client.post(&format!("{path}/{verb}"), json!({})).await.refused(404, "not_found");
            }
        }
        client.get(&format!("{serve}/networks/{network}")).await.refused(404, "not_found");
        client.delete(&format!("{serve}/ssh-keys/{key}")).await.refused(404, "not_found");
        for reference in [allocation, "a"] {
            let body = json!({"name": "mine", "allocation": reference, "spec": {"root": {"host": ["/usr"]}}});
            client.post(&format!("{serve}/cells"), body).await.refused(404, "not_found");
        }
    }
    assert_eq!(scene.cell("shell").await["state"], "running");
    stop(scene, nodes).await;
}

/// An agent only gets its own tasks, and its reports only count for those.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_and_reports_of_a_cell_are_bound_to_its_node() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    scene.kit.operator().post(&format!("/v1/nodes/{}/cordon", hand.node), json!({})).await.ok();
    let other = approved(&scene, 0).await;
    scene.running("shell", "a", json!({"people": true})).await;
    let work = poll(&other, 0, 0).await;
    assert_eq!((&work["tasks"], work.get("desired")), (&json!([]), None));
    // It guesses the task correctly, down to the generation, and is rejected.
    let task = hand.tasks(TaskKind::CellInspect).pop().unwrap();
    let forged = json!({"session": other.session, "reports": [report(&task, &Findings::default())]});
    assert_eq!(other.send("report", &forged).await.ok()["refused"], json!([task.id]));
    assert_eq!(scene.kit.servers[0].platform.metrics.stale_reports.get(), 1);
    assert_eq!(scene.cell("shell").await["state"], "running");
    drop(hand);
    scene.kit.stop().await;
}

async fn next_task(agent: &Agent, kind: TaskKind) -> Task {
    for _ in 0..20 {
        let work = poll(agent, 1, i64::MAX).await;
        let tasks: Vec<Task> = serde_json::from_value(work["tasks"].clone()).unwrap();
        if let Some(task) = tasks.into_iter().find(|task| task.act.kind() == kind) {
            return task;
        }
    }
    panic!("no {kind:?} came");
}

async fn say(scene: &Scene, agent: &Agent, report: Value) -> (Value, u64) {
    let body = json!({"session": agent.session, "reports": [report]});
    let refused = agent.send("report", &body).await.ok()["refused"].clone();
    (refused, scene.kit.servers[0].platform.metrics.stale_reports.get())
}

/// Attack: a client waits for a stream, and the wrong agent joins: another node's, one without a certificate, and the
/// right node's with a replaced certificate. None of them consumes the stream, and the right one joins once.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_opened_by_the_cells_own_node_with_the_certificate_that_counts() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let (other, old) = (approved(&scene, 0).await, approved(&scene, 0).await);
    let cell = crate::stream::cell(scene.kit.store(), scene.fixture.id("train"), old.node, "shell").await;
    let enrolled = scene.kit.operator().post("/v1/nodes/enrol", json!({"node": old.name})).await.ok();
    let new = Agent::join_with(&scene.kit, 0, &enrolled.text_of("token"), KeyPair::generate().unwrap()).await;
    assert_eq!(new.node, old.node);

    let asked = json!({"command": {"command": ["cat"]}});
    let asked = scene.admin.post(&format!("{}/cells/{cell}/streams", scene.base), asked).await.ok();
    let person = muster_sdk::connect(&format!("http://{}", scene.kit.servers[0].address), &scene.admin.token);
    let _waiting = person.unwrap().join(&asked.text_of("path")).await.unwrap();
    let port = scene.kit.nodes_address(0).port();
    let url = format!("https://localhost:{port}/node/v1/streams/{}", asked.text_of("id"));
    let nobody = client(&scene.kit.authority().await, None);
    let dial =
        async |http: &reqwest::Client| upgrading(http.get(&url)).send().await.unwrap().status().as_u16();
    assert_eq!(dial(&other.http).await, 404, "another node's");
    assert_eq!(dial(&nobody).await, 401, "nobody's");
    assert_eq!(dial(&old.http).await, 401, "a certificate that was replaced");
    assert_eq!(dial(&new.http).await, 101);
    assert_eq!(dial(&new.http).await, 404, "it was taken once");
    scene.kit.stop().await;
}

/// A forged incarnation or generation in a report is fenced and counted, and has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_with_a_forged_incarnation_is_fenced_and_counted() {
    for database in Database::both() {
        let scene = Scene::new(database, 1).await;
        let agent = approved(&scene, 0).await;
        let body = json!({"name": "a", "cpus": 2});
        let started = scene.admin.post(&format!("{}/allocations", scene.base), body).await.ok();
        let prepare = next_task(&agent, TaskKind::Prepare).await;
        let Act::Prepare(Prepare { resources: SandboxResources { amount, .. }, .. }) = prepare.act else {
            panic!("{prepare:?}")
        };
        let found =
            Findings { present: true, incarnation: prepare.incarnation, amount, ..Findings::default() };
        for (counted, member) in [(1, "incarnation"), (2, "generation")] {
            let mut forged = report(&prepare, &found);
            forged[member] = json!(forged[member].as_i64().unwrap() + 1);
            assert_eq!(say(&scene, &agent, forged).await, (json!([prepare.id]), counted));
        }
        assert_eq!(say(&scene, &agent, report(&prepare, &found)).await, (json!([]), 2));
        let inspect = next_task(&agent, TaskKind::Inspect).await;
        assert_eq!(say(&scene, &agent, report(&inspect, &found)).await, (json!([]), 2));
        assert_eq!(scene.ended(&started).await["state"], "succeeded");
        scene.kit.stop().await;
    }
}

/// A node's findings are compared with the database: another incarnation is not the requested one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_seen_with_another_incarnation_does_not_run() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    hand.tamper(|task, found| {
        if let Some(cell) =
            found.cell.as_mut().filter(|cell| cell.present && task.act.kind() == TaskKind::CellInspect)
        {
            cell.incarnation += 6;
        }
    });
    let port = json!({"ingress": [{"port": 80}]});
    let ended = scene.ended(&scene.create("shell", "a", port.clone()).await.ok()).await;
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("failed"), &json!("verify_failed")), "{ended:#}");
    let cell = scene.cell("shell").await;
    assert_eq!((&cell["state"], &cell["reason"]), (&json!("failed"), &json!("verify_failed")));
    assert!(cell["message"].as_str().unwrap().contains("incarnation 7"), "{cell:#}");
    assert!(cell["advice"].is_string() && cell["ports"] == json!([]), "{cell:#}");
    assert_eq!(hand.tasks(TaskKind::CellDestroy).len(), 1, "what was made is taken away again");
    assert!(scene.told().await.contains(&"cell.failed".to_owned()));
    // Its name, address and port are free again.
    hand.tamper(|_, _| {});
    let next = scene.running("shell", "a", port).await;
    assert_eq!((&next["address"], &next["ports"][0]["node_port"]), (&cell["address"], &json!(30_000)));
    drop(hand);
    scene.kit.stop().await;
}

/// A node that reports "ready" for something other than what was requested is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_among_what_was_seen_is_not_ready() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    hand.tamper(|_, found| {
        if let Some(cell) = &mut found.cell {
            cell.services.clear();
        }
    });
    let web = json!({"services": [{"name": "web", "command": ["/usr/bin/true"]}]});
    let started = scene.create("shell", "a", web).await.ok();
    let operation = format!("/v1/operations/{}", started.body["operation"]["id"].as_str().unwrap());
    until("it waits for the service", async || {
        let shown = scene.admin.get(&operation).await.ok();
        shown.text.contains("the service web has not been started")
    })
    .await;
    assert_eq!(scene.cell("shell").await["state"], "provisioning");
    hand.tamper(|_, _| {});
    scene.done(started).await;
    drop(hand);
    scene.kit.stop().await;
}

/// A tenant's environment variables reach the node unchanged, in the cell's spec and nowhere else. The crates that create
/// cells test that they stay inside the cell.
#[tokio::test(flavor = "multi_thread")]
async fn an_environment_is_carried_as_it_is_and_nowhere_else() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    let spec = json!({"environment": {"LD_PRELOAD": "/tmp/evil.so", "PATH": "$(reboot)"}});
    scene.running("shell", "a", spec).await;
    let made = hand.tasks(TaskKind::CellCreate).pop().unwrap();
    let Act::CellCreate(act) = &made.act else { panic!("{made:?}") };
    assert_eq!(act.spec.environment["LD_PRELOAD"], "/tmp/evil.so");
    assert_eq!(act.spec.environment["PATH"], "$(reboot)");
    assert_eq!(json!(made).to_string().matches("evil").count(), 1);
    for kind in [TaskKind::CellInspect, TaskKind::Inspect] {
        assert!(hand.tasks(kind).iter().all(|task| !json!(task).to_string().contains("evil")), "{kind:?}");
    }
    drop(hand);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_could_mean_more_than_a_name_are_refused() {
    let (scene, nodes) = with_agent(Database::sqlite()).await;
    let long = "a".repeat(64);
    for name in [
        "",
        "a\nb",
        "a b",
        "../a",
        "a/b",
        "a.b",
        "\u{1b}[2J",
        "-a",
        "a-",
        "A",
        "a;reboot",
        "$(id)",
        "a\0",
        "é",
        &long,
    ] {
        let refused = scene.create(name, "a", json!({})).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/name", "{name:?}");
        let key = json!({"name": name, "public_key": super::KEY});
        let refused = scene.admin.post(&format!("{}/ssh-keys", scene.base), key).await;
        assert_eq!(refused.refused(400, "invalid_request").body["errors"][0]["pointer"], "/name", "{name:?}");
    }
    // Nor does a reference in the path reach beyond the project's own rows.
    for reference in ["..%2F..%2Fnodes", "a%0Ab", "'%20OR%20'1'='1"] {
        scene.admin.get(&format!("{}/cells/{reference}", scene.base)).await.refused(404, "not_found");
    }
    scene.admin.get(&format!("{}/cells/%00", scene.base)).await.refused(400, "invalid_request");
    stop(scene, nodes).await;
}
