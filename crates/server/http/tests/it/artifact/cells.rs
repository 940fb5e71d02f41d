//! Artifacts and cells created from them: which may start, the evidence that one runs, and the holds of a live cell.

use std::time::Duration;

use muster_agent::{Address, Folder, Invitation, Machine, Trust};
use muster_agent_sim::{Fleet, KillPoints, Member, Odds, simulated_inventory};
use muster_ids::Env;
use muster_testkit::{Answer, Database};
use muster_trust::PrivateKey;
use serde_json::{Value, json};

use super::{Shelf, sign};
use crate::fleet_api::approve;
use crate::registry::Image;

/// A shelf with a node, run by a real agent with the simulated driver, and the project's allocation `a` on it.
struct Floor {
    shelf: Shelf,
    fleet: Fleet,
    _folder: tempfile::TempDir,
}

impl Floor {
    async fn new(database: Database) -> Self {
        let shelf = Shelf::new(database).await;
        let (operator, env) = (shelf.kit.operator(), Env::system());
        let mut fleet = Fleet::new(env.clone(), None, KillPoints::default().into(), Odds::default(), 1);
        let enrolled = operator.post("/v1/nodes/enrol", json!({"name": "one"})).await.ok();
        let server = format!("https://127.0.0.1:{}", shelf.kit.nodes_address(0).port());
        let invitation = Invitation {
            server: server.parse::<Address>().unwrap(),
            token: enrolled.text_of("token"),
            trust: Trust::fingerprint(&enrolled.text_of("ca_sha256")).unwrap(),
            name: "one".to_owned(),
        };
        let kept = tempfile::tempdir().unwrap();
        let folder = Folder::unflushed(kept.path().join("one"));
        let machine = Machine::Fixed(std::sync::Arc::new(simulated_inventory("one", 0, 8, 8192, 8192)));
        let inventory = machine.look().await;
        let identity = muster_agent::join(&folder, &invitation, inventory, false, &env).await.unwrap();
        fleet.add(Member { name: "one".to_owned(), folder, machine }).unwrap();
        tokio::time::timeout(Duration::from_secs(10), fleet.ready()).await.expect("the agent is taken up");
        let node = shelf.kit.store().node_lookup(identity.node.node_id).await.unwrap().unwrap();
        approve(&operator, "one", &node.inventory_digest).await.ok();
        let floor = Self { shelf, fleet, _folder: kept };
        let asked = json!({"name": "a", "gpus": 0, "cpus": 2});
        floor.done(floor.shelf.admin.post(&format!("{}/allocations", floor.shelf.base), asked).await).await;
        floor
    }

    async fn done(&self, started: Answer) -> Value {
        let id = started.ok().body["operation"]["id"].as_str().unwrap().to_owned();
        let ended = self.shelf.admin.get(&format!("/v1/operations/{id}?wait_seconds=20")).await.ok().body;
        assert_eq!(ended["state"], "succeeded", "{ended:#}");
        ended
    }

    /// Requests a cell from a digest.
    async fn start(&self, name: &str, digest: &str) -> Answer {
        let body = json!({"name": name, "allocation": "a", "spec": {"root": {"image": digest}}});
        self.shelf.admin.post(&format!("{}/cells", self.shelf.base), body).await
    }

    async fn destroy(&self, name: &str) {
        let path = format!("{}/cells/{name}/destroy", self.shelf.base);
        self.done(self.shelf.admin.post(&path, json!({})).await).await;
    }

    async fn stop(mut self) {
        self.fleet.stop().await;
        self.shelf.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_cell_keeps_its_artifact_from_being_retired() {
    for database in Database::both() {
        let floor = Floor::new(database).await;
        let shelf = &floor.shelf;
        shelf.rules(json!({"unsigned_up_to": "active", "grace_hours": 0})).await;
        let id = shelf.pushed("one").await;
        shelf.brought(&id, "active").await;
        floor.done(floor.start("web", &Image::of("one").digest()).await).await;
        let found = shelf.admin.get(&format!("{}/references", shelf.path(&id))).await.ok().body;
        assert_eq!(
            (&found["cells"][0]["name"], &found["cells"][0]["state"]),
            (&json!("web"), &json!("running"))
        );
        assert!(found["holds"].as_array().unwrap().iter().any(|hold| hold.as_str().unwrap().contains("web")));
        shelf.demote(&id, "deprecated").await.ok();
        let refused = shelf.demote(&id, "retired").await.refused(409, "invalid_state");
        assert!(refused.text.contains("web"), "{}", refused.text);
        // Nothing new starts from it; running cells continue.
        let refused = floor.start("more", &Image::of("one").digest()).await.refused(409, "invalid_state");
        assert!(refused.text.contains("deprecated"), "{}", refused.text);
        let cell = shelf.admin.get(&format!("{}/cells/web", shelf.base)).await.ok();
        assert_eq!(cell.text_of("state"), "running");
        floor.destroy("web").await;
        shelf.demote(&id, "retired").await.ok();
        floor.start("more", &Image::of("one").digest()).await.refused(409, "invalid_state");
        shelf.admin.delete(&shelf.path(&id)).await.ok();
        floor.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_from_what_the_project_does_not_trust() {
    let floor = Floor::new(Database::sqlite()).await;
    let shelf = &floor.shelf;
    let image = Image::of("one");
    let id = shelf.pushed("one").await;
    // By default, an unsigned artifact may be used up to staged.
    shelf.rules(json!({"unsigned_up_to": "draft"})).await;
    shelf.promote(&id, "staged").await.refused(409, "untrusted");
    floor.done(floor.start("tried", &image.digest()).await).await;
    shelf.rules(json!({"unsigned_up_to": "active"})).await;
    shelf.brought(&id, "active").await;
    shelf.rules(json!({"unsigned_up_to": "staged"})).await;
    floor.start("later", &image.digest()).await.refused(409, "untrusted");
    let (key, key_id) = shelf.key("build").await;
    sign(&shelf.remote, &PrivateKey::generate(), &image).await;
    floor.start("later", &image.digest()).await.refused(409, "untrusted");
    sign(&shelf.remote, &key, &image).await;
    floor.done(floor.start("signed", &image.digest()).await).await;
    shelf.revoke(&key_id).await;
    floor.start("later", &image.digest()).await.refused(409, "untrusted");
    let runs = shelf.admin.get(&format!("{}/cells/signed", shelf.base)).await.ok();
    assert_eq!(runs.text_of("state"), "running", "what runs goes on");
    floor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_project_asks_for_it_staging_needs_a_cell_that_was_seen_running() {
    let floor = Floor::new(Database::sqlite()).await;
    let shelf = &floor.shelf;
    shelf.rules(json!({"smoke_to_stage": true})).await;
    let (id, other) = (shelf.pushed("one").await, shelf.pushed("two").await);
    let stage = async |id: &str, cell: &str| {
        let body = json!({"to": "staged", "reason": "smoke", "smoke_cell": cell});
        shelf.admin.post(&format!("{}/promote", shelf.path(id)), body).await
    };
    shelf.promote(&id, "staged").await.refused(409, "invalid_state");
    floor.done(floor.start("web", &Image::of("one").digest()).await).await;
    let refused = stage(&other, "web").await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/smoke_cell");
    stage(&id, "never").await.refused(400, "invalid_request");
    shelf.promote(&id, "staged").await.refused(409, "invalid_state");
    // The evidence outlives the cell.
    let cell = shelf.admin.get(&format!("{}/cells/web", shelf.base)).await.ok().text_of("id");
    floor.destroy("web").await;
    let staged = stage(&id, &cell).await.ok();
    assert!(staged.text_of("smoke_witness_id").starts_with("wit_"), "{}", staged.text);
    floor.stop().await;
}

/// A draft with a live cell cannot be removed, neither by the API nor by the registry; once the cell is gone it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_living_cell_holds_a_draft() {
    let floor = Floor::new(Database::sqlite()).await;
    let shelf = &floor.shelf;
    let (id, image) = (shelf.pushed("one").await, Image::of("one"));
    floor.done(floor.start("web", &image.digest()).await).await;
    let by_registry = format!("{{}}/manifests/{}", image.digest());
    shelf.admin.delete(&shelf.path(&id)).await.refused(409, "invalid_state");
    shelf.remote.send("DELETE", &by_registry, b"").await.refused(409, "DENIED");
    shelf.admin.delete(&format!("{}/repositories/base", shelf.base)).await.refused(409, "not_empty");
    shelf.remote.pulls(&image).await.unwrap();
    floor.destroy("web").await;
    shelf.admin.delete(&format!("{}/repositories/base", shelf.base)).await.ok();
    floor.stop().await;
}
