//! Cells that end without a request of their own, and ends that cannot be verified.

use muster_testkit::Database;
use muster_wire::act::Act;
use muster_wire::task::{KeptLog, Task, TaskKind};
use serde_json::{Value, json};

use super::hand::Hand;
use super::{Scene, stop, until, with_agent};

#[tokio::test(flavor = "multi_thread")]
async fn a_release_takes_its_cells_along_with_evidence_for_each_and_keeps_their_logs() {
    for database in Database::both() {
        let scene = Scene::new(database, 1).await;
        let hand = Hand::start(&scene, 0).await;
        scene.allocate("a", 0).await;
        scene.allocate("b", 0).await;
        let web = json!({"services": [{"name": "web", "command": ["/usr/bin/true"]}]});
        let mut ids = Vec::new();
        for name in ["one", "two"] {
            ids.push(scene.running(name, "a", web.clone()).await["id"].as_str().unwrap().to_owned());
        }
        let other = scene.running("other", "b", json!({})).await;
        let (cells, foreign) = (ids.clone(), other["id"].as_str().unwrap().to_owned());
        hand.tamper(move |task, found| {
            if task.act.kind() == TaskKind::KeepLogs {
                let log = |cell: &String, text: &str| KeptLog {
                    cell_id: cell.parse().unwrap(),
                    service: "web".to_owned(),
                    text: text.to_owned(),
                    truncated: false,
                };
                found.logs = cells.iter().map(|cell| log(cell, &format!("of {cell}"))).collect();
                // A node may report anything; for cells outside the allocation nothing is accepted from it.
                found.logs.push(log(&foreign, "forged"));
            }
        });
        scene.done(scene.act("allocations/a/release").await).await;
        for (name, id) in ["one", "two"].iter().zip(&ids) {
            let cell = scene.cell(id).await;
            assert_eq!((&cell["name"], &cell["state"]), (&json!(name), &json!("destroyed")));
            let row = scene.kit.store().cell_lookup(id.parse().unwrap()).await.unwrap().unwrap();
            let witness = row.destroyed_witness_id.unwrap();
            let witness = scene.kit.store().witness_lookup(witness).await.unwrap().unwrap();
            assert_eq!((witness.incarnation, witness.node_id), (1, Some(hand.node)));
            let kept = scene.admin.get(&format!("{}/cells/{id}/archived-logs", scene.base)).await.ok().body;
            assert_eq!(kept["logs"][0]["text"], json!(format!("of {id}")));
            assert_eq!(kept["logs"].as_array().unwrap().len(), 1);
        }
        // Each was verified individually.
        let cells = |task: Task| match task.act {
            Act::Inspect(act) => act.cells,
            other => panic!("{other:?}"),
        };
        let looked = hand.tasks(TaskKind::Inspect).into_iter().map(cells).find(|cells| !cells.is_empty());
        let looked = looked.expect("cells are named where the place is looked for");
        let mut looked_for: Vec<String> = looked.iter().map(ToString::to_string).collect();
        looked_for.sort();
        ids.sort();
        assert_eq!(looked_for, ids);

        let kept = scene.admin.get(&format!("{}/cells/other/archived-logs", scene.base)).await.ok().body;
        assert_eq!(kept["logs"], json!([]), "nothing forged is kept");
        assert_eq!(scene.cell("other").await["state"], "running");
        assert_eq!(scene.told().await.iter().filter(|word| *word == "cell.destroyed").count(), 2);
        drop(hand);
        scene.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_is_restarted_and_resized_with_the_cells_in_it() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        let before = scene.running("shell", "a", json!({})).await;
        let number = |thing: &Value| thing["incarnation"].as_i64().unwrap();
        let place = async || scene.admin.get(&format!("{}/allocations/a", scene.base)).await.ok().body;
        let first = number(&place().await);
        // The plan names the cells to restart, and restarts nothing.
        let restart = format!("{}/allocations/a/restart", scene.base);
        let plan = scene.admin.post(&restart, json!({"dry_run": true})).await.ok().body["plan"].clone();
        assert!(plan["locks"].as_array().unwrap().contains(&before["id"]), "{plan}");
        assert_eq!(number(&scene.cell("shell").await), number(&before));
        scene.done(scene.admin.post(&restart, json!({"reason": "a test"})).await).await;
        let again = scene.cell("shell").await;
        assert_eq!((&again["state"], &again["id"]), (&json!("running"), &before["id"]));
        assert_eq!((number(&again), number(&place().await)), (number(&before) + 1, first + 1));
        // CPUs and memory change without a restart.
        let resize = format!("{}/allocations/a/resize", scene.base);
        scene.done(scene.admin.post(&resize, json!({"cpus": 3, "memory_mb": 512})).await).await;
        assert_eq!(number(&scene.cell("shell").await), number(&again));
        // A change of GPUs requires a restart, requested explicitly.
        for dry_run in [true, false] {
            let asked = json!({"gpus": 2, "dry_run": dry_run});
            let refused = scene.admin.post(&resize, asked).await.refused(409, "invalid_state");
            assert!(refused.text.contains("shell") && refused.text.contains("--restart"), "{}", refused.text);
        }
        scene.admin.post(&resize, json!({"gpus": 2, "force": true})).await.refused(400, "invalid_request");
        scene.done(scene.admin.post(&resize, json!({"gpus": 2, "restart": true})).await).await;
        let more = scene.cell("shell").await;
        assert_eq!((&more["state"], number(&more)), (&json!("running"), number(&again) + 1));
        assert_eq!(place().await["held"]["gpus"], 2);
        // A cell that names a GPU keeps it.
        scene.running("second", "a", json!({"gpus": [1]})).await;
        let refused = scene.admin.post(&resize, json!({"gpus": 1, "restart": true})).await;
        assert!(refused.refused(400, "invalid_request").text.contains("second uses GPU 1"));
        scene.done(scene.act("cells/second/destroy").await).await;
        scene.done(scene.admin.post(&resize, json!({"gpus": 1, "restart": true})).await).await;
        assert_eq!(scene.cell("shell").await["state"], "running");
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_with_living_cells_is_not_removed_and_history_goes_with_a_cascade() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        scene.running("shell", "a", json!({})).await;
        let key = json!({"name": "laptop", "public_key": super::KEY});
        scene.admin.post(&format!("{}/ssh-keys", scene.base), key).await.ok();
        let operator = scene.kit.operator();
        let remove = format!("{}?cascade=true", scene.base);
        operator.delete(&remove).await.refused(409, "not_empty");
        operator.delete("/v1/tenants/acme?cascade=true").await.refused(409, "not_empty");
        assert_eq!(scene.cell("shell").await["state"], "running");
        scene.done(scene.act("allocations/a/release").await).await;
        operator.delete(&scene.base).await.refused(409, "not_empty");
        let removed = operator.delete(&remove).await.ok().body["removed"].clone();
        let counts = ["cells", "networks", "ssh_keys", "allocations"].map(|noun| removed[noun].clone());
        assert_eq!(counts, [1, 1, 1, 1].map(Value::from), "{removed}");
        operator.delete("/v1/tenants/acme?cascade=true").await.ok();
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn destroy_with_leftovers_is_blocked_and_names_them() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    scene.running("shell", "a", json!({})).await;
    hand.tamper(|task, found| {
        if let Some(cell) = found.cell.as_mut().filter(|_| task.act.kind() == TaskKind::CellInspect) {
            cell.left = vec!["mount /m".to_owned()];
        }
    });
    let started = scene.act("cells/shell/destroy").await.ok();
    let operation = format!("/v1/operations/{}", started.body["operation"]["id"].as_str().unwrap());
    let shown = async || scene.admin.get(&operation).await.ok().body;
    until("it is blocked", async || shown().await["state"] == "blocked").await;
    let blocked = shown().await;
    assert!(blocked["blocked"]["reason"].as_str().unwrap().contains("mount /m"), "{blocked:#}");
    assert_eq!(blocked["blocked"]["resolvable_by"], "operator");
    assert_eq!(scene.cell("shell").await["state"], "destroying");
    // Once it is clean, a retry suffices.
    hand.tamper(|_, _| {});
    let retry = json!({"action": "retry"});
    scene.kit.operator().post(&format!("{operation}/resolve"), retry).await.ok();
    until("it is gone", async || scene.cell("shell").await["state"] == "destroyed").await;
    drop(hand);
    scene.kit.stop().await;
}
