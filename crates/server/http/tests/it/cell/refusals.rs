//! Refusals and their texts; and repeated requests.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{KEY, OTHER_KEY, stop, until, with_agent, with_root};

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_the_plan_and_leaves_nothing() {
    let (scene, nodes) = with_agent(Database::sqlite()).await;
    let cells = format!("{}/cells", scene.base);
    let body = json!({"name": "shell", "allocation": "a", "spec": with_root(json!({"ingress": [{"port": 80}]})),
                      "dry_run": true});
    let shown = scene.admin.post(&cells, body).await.ok().body;
    assert!(shown.get("operation").is_none());
    let steps: Vec<&str> = shown["plan"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["name"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["provision", "connect", "verify_running"]);
    for what in ["cells", "networks"] {
        let list = scene.admin.get(&format!("{}/{what}", scene.base)).await.ok().body;
        assert_eq!(list["items"], json!([]), "{what}");
    }
    scene.running("shell", "a", json!({})).await;
    for (verb, last) in [("restart", "verify_running"), ("destroy", "verify_destroyed")] {
        let plan =
            scene.admin.post(&format!("{cells}/shell/{verb}"), json!({"dry_run": true})).await.ok().body;
        assert!(plan.get("operation").is_none());
        assert_eq!(plan["plan"]["steps"].as_array().unwrap().last().unwrap()["name"], last);
    }
    assert_eq!(scene.cell("shell").await["incarnation"], 1);
    stop(scene, nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_cell_spec_is_refused_with_its_pointer() {
    let (scene, nodes) = with_agent(Database::sqlite()).await;
    let service = |service: Value| json!({"services": [service]});
    let cases = [
        (json!({"root": {"image": "nginx:latest"}}), "/spec/root/image"),
        (json!({"root": {"host": ["/usr/../etc"]}}), "/spec/root/host/0"),
        (json!({"files": [{"path": "/etc/../../shadow", "text": "x"}]}), "/spec/files/0/path"),
        (json!({"files": [{"path": "/a", "text": "x", "mode": "rwx"}]}), "/spec/files/0/mode"),
        (json!({"state": ["/var/lib/x", "/var/lib/x/y"]}), "/spec/state/1"),
        (json!({"environment": {"A=B": "c"}}), "/spec/environment/A=B"),
        (json!({"gpus": [1]}), "/spec/gpus/0"),
        (json!({"ingress": [{"port": 80, "node_port": 22}]}), "/spec/ingress/0/node_port"),
        (service(json!({"name": "a", "command": ["sh", "-c", "x"]})), "/spec/services/0/command"),
        (service(json!({"name": "a\nb", "command": ["/bin/sh"]})), "/spec/services/0/name"),
        (service(json!({"name": "a", "command": []})), "/spec/services/0/command"),
    ];
    for (spec, pointer) in cases {
        let refused = scene.create("shell", "a", spec.clone()).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], pointer, "{spec}: {}", refused.text);
    }
    let body = json!({"name": "shell", "allocation": "a", "spec": with_root(json!({})),
                      "ready_until": "2020-01-01T00:00:00Z"});
    let refused = scene.admin.post(&format!("{}/cells", scene.base), body).await;
    assert_eq!(refused.refused(400, "invalid_request").body["errors"][0]["pointer"], "/ready_until");
    let unknown = scene.create("shell", "a", json!({"privileged": true})).await;
    assert!(unknown.refused(400, "invalid_request").text.contains("privileged"));
    assert_eq!(scene.admin.get(&format!("{}/cells", scene.base)).await.ok().body["items"], json!([]));
    stop(scene, nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_its_node_reports_is_shown_with_its_health() {
    let (scene, nodes) = with_agent(Database::sqlite()).await;
    let cell = scene.running("shell", "a", json!({})).await;
    let path = format!("{}/cells/{}", scene.base, cell["id"].as_str().unwrap());
    until("its node reports it", async || scene.admin.get(&path).await.ok().body["health"] == "healthy")
        .await;
    stop(scene, nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_needs_an_allocation_that_is_active() {
    let (scene, nodes) = with_agent(Database::sqlite()).await;
    scene.create("shell", "b", json!({})).await.refused(404, "not_found");
    let id = scene.admin.get(&format!("{}/allocations/a", scene.base)).await.ok().text_of("id");
    scene.done(scene.act("allocations/a/release").await).await;
    let refused = scene.create("shell", &id, json!({})).await.refused(409, "invalid_state");
    assert!(refused.text.contains("released"), "{}", refused.text);
    stop(scene, nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_create_runs_once_and_a_cell_name_is_unique() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        let cells = format!("{}/cells", scene.base);
        let body = json!({"name": "shell", "allocation": "a", "spec": with_root(json!({}))});
        let first = scene.admin.post_with_key(&cells, body.clone(), "once").await.ok();
        let again = scene.admin.post_with_key(&cells, body.clone(), "once").await.ok();
        assert_eq!(first.body["operation"]["id"], again.body["operation"]["id"]);
        let other = json!({"name": "other", "allocation": "a", "spec": with_root(json!({}))});
        scene.admin.post_with_key(&cells, other, "once").await.refused(422, "idempotency_key_reused");
        scene.done(again).await;
        scene.create("shell", "a", json!({})).await.refused(409, "name_taken");
        let list = scene.admin.get(&cells).await.ok().body;
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        // Eight concurrent requests with one name create one cell.
        let eight = (0..8).map(|_| scene.create("many", "a", json!({})));
        let answers = futures::future::join_all(eight).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 202).count(), 1);
        for answer in answers.into_iter().filter(|answer| answer.status != 202) {
            answer.refused(409, "name_taken");
        }
        // And eight with different names get different addresses.
        let names: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
        let eight = names.iter().map(|name| scene.create(name, "a", json!({"ingress": [{"port": 80}]})));
        for answer in futures::future::join_all(eight).await {
            scene.done(answer).await;
        }
        let list = scene.admin.get(&format!("{cells}?page_size=100&state=running")).await.ok().body;
        let mut addresses: Vec<&str> =
            list["items"].as_array().unwrap().iter().map(|cell| cell["address"].as_str().unwrap()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert!(addresses.len() >= 9, "{addresses:?}");
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_has_at_most_twenty_keys_in_a_project_and_none_is_huge() {
    use base64::Engine as _;
    // OpenSSH's format accepts any bytes after the algorithm's name as a key.
    let key = |seed: u8, bytes: usize| {
        let mut inside = vec![0, 0, 0, 7];
        inside.extend(b"ssh-rsa");
        inside.extend(std::iter::repeat_n(seed, bytes));
        format!("ssh-rsa {}", base64::engine::general_purpose::STANDARD.encode(inside))
    };
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        let keys = format!("{}/ssh-keys", scene.base);
        let huge = scene.admin.post(&keys, json!({"name": "huge", "public_key": key(1, 5_000)})).await;
        assert_eq!(huge.refused(400, "invalid_request").body["errors"][0]["pointer"], "/public_key");
        for count in 1..=20u8 {
            let body = json!({"name": format!("k{count}"), "public_key": key(count, 600)});
            scene.admin.post(&keys, body).await.ok();
        }
        let surplus = json!({"name": "k21", "public_key": key(21, 600)});
        let refused = scene.admin.post(&keys, surplus.clone()).await.refused(409, "quota_exceeded");
        assert!(refused.text.contains("20 SSH keys"), "{}", refused.text);
        scene.fixture.client(&scene.kit, "project_admin").post(&keys, surplus).await.ok();
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_keys_are_added_listed_and_removed_by_whom_they_belong_to() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        let keys = format!("{}/ssh-keys", scene.base);
        let (owner, viewer) =
            (scene.fixture.client(&scene.kit, "project_admin"), scene.fixture.client(&scene.kit, "viewer"));
        let key = |name: &str, text: &str| json!({"name": name, "public_key": text});
        let added = owner.post(&keys, key("laptop", &format!("{KEY} me@laptop"))).await.ok();
        assert_eq!((added.status, added.text_of("public_key").as_str()), (201, KEY));
        assert_eq!(added.text_of("user_id"), scene.fixture.id("project_admin"));
        owner.post(&keys, key("laptop", OTHER_KEY)).await.refused(409, "name_taken");
        owner.post(&keys, key("same", KEY)).await.refused(409, "name_taken");
        scene.admin.post(&keys, key("laptop", OTHER_KEY)).await.ok();
        for bad in ["", "x", &format!("{KEY}\n{OTHER_KEY}"), &format!("command=\"/bin/sh\" {KEY}")] {
            let refused = owner.post(&keys, key("bad", bad)).await.refused(400, "invalid_request");
            assert_eq!(refused.body["errors"][0]["pointer"], "/public_key", "{bad}");
        }
        let list = owner.get(&format!("{keys}?page_size=1")).await.ok().body;
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let next = format!("{keys}?page_size=1&page_token={}", list["next_page_token"].as_str().unwrap());
        assert_eq!(owner.get(&next).await.ok().body["items"][0]["name"], "laptop");

        // People manage their own keys; another person's only with the permission to remove that person's role.
        let path = format!("{keys}/{}", added.text_of("id"));
        assert_eq!(viewer.get(&path).await.ok().body, added.body);
        viewer.delete(&path).await.refused(403, "permission_denied");
        owner.delete(&path).await.ok();
        owner.delete(&path).await.refused(404, "not_found");
        owner.get(&path).await.refused(404, "not_found");
        let left = owner.get(&keys).await.ok().body["items"].as_array().unwrap().len();
        assert_eq!(left, 1);
        let told = scene.told().await;
        for word in ["ssh_key.created", "ssh_key.deleted"] {
            assert!(told.contains(&word.to_owned()), "{told:?}");
        }
        stop(scene, nodes).await;
    }
}
