//! Lifecycle of cells, as users experience it: the real agent with its simulated driver creates and destroys them.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{stop, with_agent};

fn transitions(operation: &Value) -> Vec<&str> {
    let witnesses = operation["witnesses"].as_array().unwrap();
    witnesses.iter().map(|witness| witness["transition"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_lives_is_made_anew_and_goes_with_evidence_for_each() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        let web = json!({"name": "web", "command": ["/usr/bin/true"]});
        let made = scene.done(scene.create("shell", "a", json!({"services": [web]})).await).await;
        assert_eq!(transitions(&made), ["active"]);
        assert_eq!(made["witnesses"][0]["kind"], "witnessed");
        let steps: Vec<&str> =
            made["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
        assert_eq!(steps, ["provision", "connect", "verify_running"]);
        let first = scene.cell("shell").await;
        let id = first["id"].as_str().unwrap();
        assert_eq!((&first["state"], &first["incarnation"]), (&json!("running"), &json!(1)));
        assert_eq!(first["node_id"], json!(nodes.ids[0]));
        assert_eq!(scene.cell(id).await, first);

        let again = scene.done(scene.act("cells/shell/restart").await).await;
        assert_eq!(transitions(&again), ["destroyed", "active"], "it was gone in between, and that was seen");
        let second = scene.cell("shell").await;
        assert_eq!((&second["state"], &second["incarnation"]), (&json!("running"), &json!(2)));
        assert_eq!((&second["id"], &second["address"]), (&first["id"], &first["address"]));

        let gone = scene.done(scene.act("cells/shell/destroy").await).await;
        assert_eq!(transitions(&gone), ["destroyed"]);
        assert_eq!(scene.cell(id).await["state"], "destroyed");
        assert_eq!(
            scene.cell("shell").await["id"],
            json!(id),
            "the last of its name can still be asked about"
        );
        scene.act("cells/shell/destroy").await.refused(409, "invalid_state");
        scene.act("cells/shell/restart").await.refused(409, "invalid_state");

        let next = scene.running("shell", "a", json!({})).await;
        assert_ne!(next["id"], json!(id));
        assert_eq!((&next["incarnation"], &next["address"]), (&json!(1), &first["address"]));
        let told = scene.told().await;
        let of_cells: Vec<&str> = told.iter().filter_map(|word| word.strip_prefix("cell.")).collect();
        let life = ["requested", "running", "destroying", "running", "destroying", "destroyed"];
        assert_eq!(of_cells, [&life[..], &["requested", "running"]].concat());
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_listed_by_page_labels_state_and_allocation() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        scene.allocate("b", 0).await;
        for (name, allocation) in [("one", "a"), ("two", "a"), ("three", "b")] {
            let body = json!({"name": name, "allocation": allocation, "labels": {"name": name},
                              "spec": {"root": {"host": ["/usr"]}}});
            scene.done(scene.admin.post(&format!("{}/cells", scene.base), body).await).await;
        }
        scene.done(scene.act("cells/two/destroy").await).await;
        let names = async |query: &str| {
            let page = scene.admin.get(&format!("{}/cells?{query}", scene.base)).await.ok().body;
            let items = page["items"].as_array().unwrap().iter();
            let names: Vec<String> = items.map(|cell| cell["name"].as_str().unwrap().to_owned()).collect();
            (names.join(" "), page["next_page_token"].as_str().map(str::to_owned))
        };
        assert_eq!(names("").await, ("one two three".to_owned(), None));
        assert_eq!(names("state=running").await.0, "one three");
        assert_eq!(names("state=destroyed").await.0, "two");
        assert_eq!(names("allocation=b").await.0, "three");
        assert_eq!(names("labels=name!%3Dtwo").await.0, "one three");
        let (page, token) = names("page_size=2").await;
        assert_eq!(page, "one two");
        let token = token.unwrap();
        assert_eq!(names(&format!("page_size=2&page_token={token}")).await, ("three".to_owned(), None));
        // A page token of one list is invalid for another.
        let other = format!("{}/cells?state=destroyed&page_size=2&page_token={token}", scene.base);
        scene.admin.get(&other).await.refused(400, "bad_cursor");
        let absent = format!("{}/cells?allocation=c", scene.base);
        scene.admin.get(&absent).await.refused(404, "not_found");
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_shows_who_is_in_it() {
    for database in Database::both() {
        let (scene, mut nodes) = with_agent(database).await;
        assert_eq!(scene.admin.get(&format!("{}/networks", scene.base)).await.ok().body["items"], json!([]));
        let one = scene.running("one", "a", json!({})).await;
        nodes.add(&scene, "two").await;
        scene.kit.operator().post("/v1/nodes/one/cordon", json!({})).await.ok();
        scene.allocate("b", 1).await;
        let two = scene.running("two", "b", json!({})).await;
        assert_eq!([&one["node_id"], &two["node_id"]], [&json!(nodes.ids[0]), &json!(nodes.ids[1])]);
        let list = scene.admin.get(&format!("{}/networks", scene.base)).await.ok().body["items"].clone();
        let network = scene.admin.get(&format!("{}/networks/default", scene.base)).await.ok().body;
        assert_eq!(list, json!([network]));
        let member = |cell: &Value| {
            json!({"cell_id": cell["id"], "name": cell["name"], "address": cell["address"],
                   "node_id": cell["node_id"]})
        };
        assert_eq!(network["members"], json!([member(&one), member(&two)]));
        let subnet = network["subnet"].as_str().unwrap().rsplit_once('.').unwrap().0;
        assert!(one["address"].as_str().unwrap().starts_with(subnet) && one["address"] != two["address"]);

        scene.done(scene.act("cells/one/destroy").await).await;
        let by_id = format!("{}/networks/{}", scene.base, network["id"].as_str().unwrap());
        assert_eq!(scene.admin.get(&by_id).await.ok().body["members"], json!([member(&two)]));
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_a_node_are_chosen_kept_apart_and_free_again() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        let ingress = json!({"ingress": [{"port": 80}, {"port": 53, "protocol": "udp"},
                                         {"port": 81, "node_port": 30_001}, {"port": 82}]});
        let cell = scene.running("web", "a", ingress).await;
        let ports = |cell: &Value| {
            let ports = cell["ports"].as_array().unwrap().iter();
            let mut ports: Vec<String> = ports
                .map(|port| {
                    format!("{} {}→{}", port["protocol"].as_str().unwrap(), port["node_port"], port["port"])
                })
                .collect();
            ports.sort();
            ports
        };
        assert_eq!(ports(&cell), ["tcp 30000→80", "tcp 30001→81", "tcp 30002→82", "udp 30000→53"]);
        let wish = json!({"ingress": [{"port": 80}, {"port": 90, "node_port": 30_001}]});
        let refused = scene.create("other", "a", wish.clone()).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/spec/ingress/1/node_port");
        assert!(refused.text.contains("in use by another cell"), "{}", refused.text);
        let absent = scene.admin.get(&format!("{}/cells/other", scene.base)).await;
        absent.refused(404, "not_found");

        scene.done(scene.act("cells/web/restart").await).await;
        assert_eq!(ports(&scene.cell("web").await).len(), 4, "they stay with the cell");
        scene.done(scene.act("cells/web/destroy").await).await;
        assert!(ports(&scene.cell("web").await).is_empty());
        assert_eq!(ports(&scene.running("other", "a", wish).await), ["tcp 30000→80", "tcp 30001→90"]);
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_audited_and_a_tenant_cannot_ask_for_it() {
    let (scene, mut nodes) = with_agent(Database::sqlite()).await;
    scene.running("shell", "a", json!({})).await;
    let operator = scene.kit.operator();
    let audited = async |body: Value| {
        let started = operator.post("/v1/nodes/one/audit", body).await.ok();
        let id = started.body["operation"]["id"].as_str().unwrap().to_owned();
        operator.get(&format!("/v1/operations/{id}?wait_seconds=20")).await.ok().body
    };
    let clean = audited(json!({})).await;
    assert_eq!(clean["state"], "succeeded", "{clean:#}");
    let said = clean["steps"][0]["message"].as_str().unwrap();
    assert!(said.contains("no orphans, nothing missing"), "{said}");
    assert_eq!(audited(json!({"repair": true})).await["state"], "succeeded");

    // A machine that returns without its cells is detected, and nothing is created without the owner's request.
    nodes.fleet.die(0).await;
    std::fs::remove_file(nodes.folder.path().join("one/sandboxes.json")).unwrap();
    nodes.fleet.revive(0).unwrap();
    nodes.ready().await;
    let bare = audited(json!({"repair": true})).await;
    assert_eq!(
        (&bare["state"], &bare["reason"]),
        (&json!("failed"), &json!("differences_found")),
        "{bare:#}"
    );
    let said = bare["message"].as_str().unwrap();
    assert!(said.contains("the sandbox of allocation a") && said.contains("is missing"), "{said}");
    assert_eq!(scene.cell("shell").await["state"], "running");
    let plan = operator.post("/v1/nodes/one/audit", json!({"dry_run": true})).await.ok().body;
    assert!(plan.get("operation").is_none());
    scene.admin.post("/v1/nodes/one/audit", json!({})).await.refused(403, "permission_denied");
    operator.post("/v1/nodes/two/audit", json!({})).await.refused(404, "not_found");
    scene.kit.sealed().await;
    let events = operator.get("/v1/events?page_size=200").await.ok();
    assert!(events.text.contains("dev.muster.node.audited.v1"));
    stop(scene, nodes).await;
}
