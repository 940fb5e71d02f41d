//! Streams end to end: real HTTP and WebSockets, the real agent with its real protocol, and a simulated cell.

mod ends;
mod refusals;
mod works;

use std::time::Duration;

use jiff::SignedDuration;
use muster_agent::{Address, Folder, Invitation, Machine, Trust};
use muster_agent_sim::{Fleet, KillPoints, Member, Odds, simulated_inventory};
use muster_db::{Store, Stream};
use muster_ids::{CellId, Env, NodeId, StreamId};
use muster_model::Labels;
use muster_model::allocation::Allocation;
use muster_model::cell::{Cell, CellState};
use muster_model::node::Capacity;
use muster_sdk::{Said, StreamInput, StreamOutput};
use muster_testkit::{Answer, Client, Database, Fixture, Kit};
use serde_json::{Value, json};

/// Creates a cell that exists according to the database. Provisioning needs no evidence, and suffices to open a stream.
pub(crate) async fn cell(store: &Store, project: &str, node: NodeId, name: &str) -> CellId {
    cell_of(store, project, node, name, false).await
}

/// The same, with or without the project's people.
pub(crate) async fn cell_of(store: &Store, project: &str, node: NodeId, name: &str, people: bool) -> CellId {
    let env = Env::system();
    let project = store.project_lookup(project.parse().unwrap()).await.unwrap().unwrap();
    let (tenant_id, now) = (project.tenant_id, env.now());
    let capacity = Capacity { gpus: 0, cpus: 1, memory_mb: 1, disk_mb: 1 };
    let allocation = Allocation::requested(env.id(), tenant_id, project.id, name, capacity, now);
    let mut tx = store.begin().await.unwrap();
    tx.allocation_request(&allocation).await.unwrap();
    let network = tx.network_ensure(env.id(), tenant_id, project.id, "cells", now).await.unwrap();
    let host = i64::try_from(tx.cell_hosts(network.id).await.unwrap().len()).unwrap() + 2;
    let cell = Cell {
        id: env.id(),
        tenant_id,
        project_id: project.id,
        allocation_id: allocation.id,
        node_id: node,
        network_id: network.id,
        name: name.to_owned(),
        labels: Labels::new(),
        spec: json!({"root": {"host": ["/usr"]}}),
        people,
        artifact_id: None,
        member_id: None,
        fenced: false,
        host,
        state: CellState::Provisioning,
        incarnation: 1,
        reason: None,
        message: None,
        running_witness_id: None,
        destroyed_witness_id: None,
        operation_id: None,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    tx.cell_request(&cell).await.unwrap();
    tx.commit().await.unwrap();
    cell.id
}

/// Creates a stream that this actor may join at any time; it is never executed, as there is no agent.
pub(crate) async fn granted(store: &Store, cell: CellId, actor_id: &str) -> StreamId {
    let env = Env::system();
    let cell = store.cell_lookup(cell).await.unwrap().unwrap();
    let stream = Stream {
        id: env.id(),
        tenant_id: cell.tenant_id,
        project_id: cell.project_id,
        cell_id: cell.id,
        incarnation: cell.incarnation,
        actor_id: actor_id.to_owned(),
        what: json!({"command": {"command": ["true"]}}),
        created_at: env.now(),
        expires_at: env.now() + SignedDuration::from_hours(1),
        joined_at: None,
    };
    let mut tx = store.begin().await.unwrap();
    tx.stream_insert(&stream).await.unwrap();
    tx.commit().await.unwrap();
    stream.id
}

/// Adds the headers of a WebSocket upgrade.
pub(crate) fn upgrading(request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    request
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
}

/// A platform with one cell on one node with a running agent.
struct Scene {
    kit: Kit,
    fixture: Fixture,
    node: NodeId,
    cell: CellId,
    fleet: Fleet,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        Self::with(Database::sqlite(), 1, &[]).await
    }

    /// Starts this many servers; the agent dials the last of them.
    async fn with(database: Database, replicas: usize, settings: &[(&str, &str)]) -> Self {
        let kit = Kit::start_with(database, replicas, settings).await;
        let fixture = Fixture::build(&kit).await;
        let folder = tempfile::tempdir().unwrap();
        let mut fleet = Fleet::new(Env::system(), None, KillPoints::default().into(), Odds::default(), 1);
        let node = Self::join(&kit, &mut fleet, folder.path(), "one").await;
        let cell = cell(kit.store(), fixture.id("train"), node, "shell").await;
        Self { kit, fixture, node, cell, fleet, _folder: folder }
    }

    async fn join(kit: &Kit, fleet: &mut Fleet, folder: &std::path::Path, name: &str) -> NodeId {
        let enrolled = kit.operator().post("/v1/nodes/enrol", json!({"name": name})).await.ok();
        let port = kit.nodes_address(kit.servers.len() - 1).port();
        let invitation = Invitation {
            server: format!("https://127.0.0.1:{port}").parse::<Address>().unwrap(),
            token: enrolled.text_of("token"),
            trust: Trust::fingerprint(&enrolled.text_of("ca_sha256")).unwrap(),
            name: name.to_owned(),
        };
        let folder = Folder::unflushed(folder.join(name));
        let machine = Machine::Fixed(std::sync::Arc::new(simulated_inventory(name, 0, 8, 1024, 1024)));
        let inventory = machine.look().await;
        let identity =
            muster_agent::join(&folder, &invitation, inventory, false, &Env::system()).await.unwrap();
        fleet.add(Member { name: name.to_owned(), folder, machine }).unwrap();
        tokio::time::timeout(Duration::from_secs(10), fleet.ready()).await.expect("the agent is taken up");
        identity.node.node_id
    }

    fn client(&self, actor: &str) -> Client {
        self.fixture.client(&self.kit, actor)
    }

    async fn ask(&self, client: &Client, body: Value) -> Answer {
        let path = format!("/v1/projects/{}/cells/{}/streams", self.fixture.id("train"), self.cell);
        client.post(&path, body).await
    }

    async fn ask_logs(&self, client: &Client, body: Value) -> Answer {
        client.post(&format!("/v1/projects/{}/cells/shell/logs", self.fixture.id("train")), body).await
    }

    /// Joins at server `at`.
    async fn join_at(
        &self,
        at: usize,
        token: &str,
        path: &str,
    ) -> Result<(StreamInput, StreamOutput), muster_sdk::Error> {
        let server = format!("http://{}", self.kit.servers[at].address);
        muster_sdk::connect(&server, token).unwrap().join(path).await
    }

    /// Requests a stream as the project's admin, and joins it.
    async fn open(&self, body: Value) -> (StreamInput, StreamOutput) {
        let asked = self.ask(&self.client("project_admin"), body).await.ok();
        self.join_at(0, self.fixture.token("project_admin"), &asked.text_of("path")).await.unwrap()
    }

    async fn command(&self, words: &[&str]) -> (StreamInput, StreamOutput) {
        self.open(json!({"command": {"command": words}})).await
    }

    async fn stop(mut self) {
        self.fleet.stop().await;
        self.kit.stop().await;
    }
}

/// Output of a stream, up to its end.
#[derive(Debug, Default)]
struct Received {
    output: Vec<u8>,
    started: bool,
    status: Option<i32>,
    failed: Option<String>,
}

impl Received {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    fn take(&mut self, said: Said) -> bool {
        match said {
            Said::Started => self.started = true,
            Said::Output(bytes) => self.output.extend_from_slice(&bytes),
            Said::Error(_) => {}
            Said::Exited(status) => self.status = Some(status),
            Said::Failed(why) => self.failed = Some(why),
        }
        self.status.is_some() || self.failed.is_some()
    }
}

/// Reads to the end, and closes: a server waits for that for a while, so that no client misses the last message.
async fn all((_input, mut output): (StreamInput, StreamOutput)) -> Received {
    let mut heard = Received::default();
    let reading = async { while !heard.take(output.next().await.unwrap()) {} };
    tokio::time::timeout(Duration::from_secs(20), reading).await.expect("the stream ends");
    heard
}

/// Reads until this text arrives.
async fn until(output: &mut StreamOutput, text: &str) -> Received {
    let mut heard = Received::default();
    let reading = async {
        while !heard.text().contains(text) {
            assert!(!heard.take(output.next().await.unwrap()), "it ended: {heard:?}");
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reading).await.unwrap_or_else(|_| panic!("no {text}"));
    heard
}

/// Returns the problem of a refused join.
#[track_caller]
fn refused(
    joined: Result<(StreamInput, StreamOutput), muster_sdk::Error>,
    status: u16,
    code: &str,
) -> String {
    match joined {
        Err(muster_sdk::Error::Problem(problem)) => {
            assert_eq!((problem.status, problem.code.as_str()), (status, code), "{}", problem.detail);
            problem.detail
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was joined"),
    }
}
