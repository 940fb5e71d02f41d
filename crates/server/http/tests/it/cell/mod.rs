//! Cells over HTTP and the agent protocol, on real databases. Either the real agent runs, with its simulated driver, or
//! the test plays the agent itself, to report what a correct one would not.

mod attack;
mod canary;
mod desired;
mod hand;
mod life;
mod quarantine;
mod refusals;
mod release;
mod restarts;
mod secrets;
mod stale_allocations;

use std::time::Duration;

use muster_agent::{Address, Folder, Invitation, Machine, Trust};
use muster_agent_sim::{Fleet, KillPoints, Member, Odds, simulated_inventory};
use muster_ids::{Env, NodeId};
use muster_testkit::{Answer, Client, Database, Fixture, Kit};
use serde_json::{Value, json};

use crate::fleet_api::approve;

/// Public keys without known private keys.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7";
const OTHER_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7";

/// A platform with people, and actions on cells in the project `acme.train`.
pub(crate) struct Scene {
    pub(crate) kit: Kit,
    pub(crate) fixture: Fixture,
    pub(crate) admin: Client,
    pub(crate) base: String,
}

impl Scene {
    pub(crate) async fn new(database: Database, replicas: usize) -> Self {
        Self::with(database, replicas, &[]).await
    }

    /// The same, with these settings.
    pub(crate) async fn with(database: Database, replicas: usize, settings: &[(&str, &str)]) -> Self {
        let kit = Kit::start_with(database, replicas, settings).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let base = format!("/v1/projects/{}", fixture.id("train"));
        Self { kit, fixture, admin, base }
    }

    /// Waits for the started operation to end.
    pub(crate) async fn ended(&self, started: &Answer) -> Value {
        let id = started.body["operation"]["id"]
            .as_str()
            .unwrap_or_else(|| panic!("not started: {}", started.text));
        self.admin.get(&format!("/v1/operations/{id}?wait_seconds=20")).await.ok().body
    }

    /// Waits until the started operation is done, and witnessed.
    pub(crate) async fn done(&self, started: Answer) -> Value {
        let started = started.ok();
        assert_eq!(started.status, 202);
        let ended = self.ended(&started).await;
        assert_eq!(ended["state"], "succeeded", "{ended:#}");
        ended
    }

    /// Creates an active allocation.
    pub(crate) async fn allocate(&self, name: &str, gpus: i64) {
        let asked = json!({"name": name, "gpus": gpus, "cpus": 2});
        self.done(self.admin.post(&format!("{}/allocations", self.base), asked).await).await;
    }

    async fn create(&self, name: &str, allocation: &str, spec: Value) -> Answer {
        let body = json!({"name": name, "allocation": allocation, "spec": with_root(spec)});
        self.admin.post(&format!("{}/cells", self.base), body).await
    }

    /// Creates a running cell.
    async fn running(&self, name: &str, allocation: &str, spec: Value) -> Value {
        self.done(self.create(name, allocation, spec).await).await;
        let cell = self.cell(name).await;
        assert_eq!(cell["state"], "running", "{cell:#}");
        cell
    }

    async fn cell(&self, name: &str) -> Value {
        self.admin.get(&format!("{}/cells/{name}", self.base)).await.ok().body
    }

    async fn act(&self, path: &str) -> Answer {
        self.admin.post(&format!("{}/{path}", self.base), json!({"reason": "a test"})).await
    }

    /// Returns the event types in the project so far, oldest first, without their common prefix.
    pub(crate) async fn told(&self) -> Vec<String> {
        self.events().await.into_iter().map(|(word, _)| word).collect()
    }

    /// Returns the data of all events of this type in the project, oldest first.
    pub(crate) async fn data_of(&self, word: &str) -> Vec<Value> {
        let events = self.events().await.into_iter();
        events.filter(|(found, _)| found == word).map(|(_, event)| event["data"].clone()).collect()
    }

    /// Returns the events in the project so far, oldest first, each with its type without the common prefix.
    async fn events(&self) -> Vec<(String, Value)> {
        self.kit.sealed().await;
        let mut events = Vec::new();
        let mut after = 0;
        loop {
            let project = self.fixture.id("train");
            let path = format!("/v1/events?project={project}&page_size=200&after={after}");
            let page = self.admin.get(&path).await.ok().body;
            events.extend(page["items"].as_array().unwrap().iter().cloned());
            after = page["next_after"].as_i64().unwrap();
            if after >= page["sealed_up_to"].as_i64().unwrap() {
                break;
            }
        }
        let word = |event: &Value| {
            let word = event["type"].as_str().unwrap();
            word.trim_start_matches("dev.muster.").trim_end_matches(".v1").to_owned()
        };
        events.into_iter().map(|event| (word(&event), event)).collect()
    }
}

/// Adds a root to a cell's spec unless it has one.
fn with_root(mut spec: Value) -> Value {
    if spec.get("root").is_none() {
        spec["root"] = json!({"host": ["/usr"]});
    }
    spec
}

/// The nodes of a scene, each a real agent with the simulated driver.
pub(crate) struct Nodes {
    pub(crate) fleet: Fleet,
    ids: Vec<NodeId>,
    folder: tempfile::TempDir,
}

impl Nodes {
    pub(crate) async fn start(scene: &Scene, names: &[&str]) -> Self {
        Self::with(scene, names, Odds::default()).await
    }

    /// The same, with these faults.
    pub(crate) async fn with(scene: &Scene, names: &[&str], odds: Odds) -> Self {
        let fleet = Fleet::new(Env::system(), None, KillPoints::default().into(), odds, 1);
        let mut nodes = Self { fleet, ids: Vec::new(), folder: tempfile::tempdir().unwrap() };
        for name in names {
            nodes.add(scene, name).await;
        }
        nodes
    }

    async fn add(&mut self, scene: &Scene, name: &str) {
        let operator = scene.kit.operator();
        let enrolled = operator.post("/v1/nodes/enrol", json!({"name": name})).await.ok();
        let invitation = Invitation {
            server: format!("https://127.0.0.1:{}", scene.kit.nodes_address(0).port())
                .parse::<Address>()
                .unwrap(),
            token: enrolled.text_of("token"),
            trust: Trust::fingerprint(&enrolled.text_of("ca_sha256")).unwrap(),
            name: name.to_owned(),
        };
        let folder = Folder::unflushed(self.folder.path().join(name));
        let machine = Machine::Fixed(std::sync::Arc::new(simulated_inventory(name, 2, 8, 8192, 8192)));
        let inventory = machine.look().await;
        let env = Env::system();
        let identity = muster_agent::join(&folder, &invitation, inventory, false, &env).await.unwrap();
        self.fleet.add(Member { name: name.to_owned(), folder, machine }).unwrap();
        self.ready().await;
        let node = scene.kit.store().node_lookup(identity.node.node_id).await.unwrap().unwrap();
        approve(&operator, name, &node.inventory_digest).await.ok();
        self.ids.push(node.id);
    }

    /// Restarts a node's agent without the records of its cells.
    pub(crate) async fn forget_cells(&mut self, at: usize) {
        self.fleet.die(at).await;
        let file = self.folder.path().join(self.fleet.name(at)).join("sandboxes.json");
        // A node that never had a sandbox has no such file.
        if let Ok(text) = std::fs::read(&file) {
            let mut held: Value = serde_json::from_slice(&text).unwrap();
            for place in held["sandboxes"].as_object_mut().unwrap().values_mut() {
                place["cells"] = json!({});
            }
            std::fs::write(&file, held.to_string()).unwrap();
        }
        self.fleet.revive(at).unwrap();
    }

    async fn ready(&self) {
        let ready = tokio::time::timeout(Duration::from_secs(10), self.fleet.ready());
        ready.await.expect("the agents are taken up");
    }
}

/// A platform with one real agent and an active allocation `a` that holds a GPU.
async fn with_agent(database: Database) -> (Scene, Nodes) {
    let scene = Scene::new(database, 1).await;
    let nodes = Nodes::start(&scene, &["one"]).await;
    scene.allocate("a", 1).await;
    (scene, nodes)
}

pub(crate) async fn stop(scene: Scene, mut nodes: Nodes) {
    nodes.fleet.stop().await;
    scene.kit.stop().await;
}

/// Waits until the condition holds; fails after ten seconds.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came to this: {what}");
}
