//! A fake platform with only the adapter API, in this process: real HTTP, the contract's own types, steps with leases and
//! generations, cells as maps from paths to texts. It refuses what the contract refuses, so an adapter that works here
//! sends valid requests; the real platform's verification is not covered.

mod cells;
mod contract;
mod http;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use muster_adapter_kit::types::{AdapterStep, AdapterTask, SnapshotMember};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

/// Owner of a token.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) project: String,
    pub(crate) permissions: Vec<String>,
    pub(crate) until: Option<tokio::time::Instant>,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) operation: String,
    pub(crate) token: String,
    pub(crate) body: Value,
}

/// Fault to inject into the next call of an endpoint.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Refused with this status and code, without effect.
    Refuse(u16, &'static str),
    /// Executed, but the response is lost.
    LoseAnswer,
    /// Executed, but the response is sent this much later.
    DelayAnswer(Duration),
    /// Not executed, and no response is sent.
    Hang,
}

#[derive(Debug)]
pub(crate) struct Entitled {
    pub(crate) id: String,
    pub(crate) app: String,
    pub(crate) project: String,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) step: String,
    pub(crate) task: AdapterTask,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) tokens: HashMap<String, Who>,
    pub(crate) steps: Vec<AdapterStep>,
    pub(crate) due: HashMap<String, tokio::time::Instant>,
    pub(crate) members: Vec<SnapshotMember>,
    pub(crate) tasks: Vec<Task>,
    /// By member id.
    pub(crate) cells: HashMap<String, BTreeMap<String, String>>,
    /// Every action executed, by member name.
    pub(crate) done: Vec<(String, Value)>,
    pub(crate) calls: Vec<Call>,
    pub(crate) faults: Vec<(String, Fault)>,
    pub(crate) entitled: Vec<Entitled>,
    pub(crate) token_life: Duration,
    pub(crate) made: u64,
    /// Whether the platform is down.
    pub(crate) down: bool,
    /// Whether tasks stay queued.
    pub(crate) nodes_sleep: bool,
    /// Ids of members with dead cells.
    pub(crate) dead_cells: Vec<String>,
    /// Exit statuses of unknown programs, by name.
    pub(crate) exits: HashMap<String, Vec<i32>>,
    /// Issued shared secrets, without their values; and the keys they were requested with.
    pub(crate) secrets: Vec<Value>,
    pub(crate) issued: HashMap<String, Value>,
}

/// A running platform.
#[derive(Clone)]
pub(crate) struct Platform {
    pub(crate) url: String,
    world: Arc<Mutex<World>>,
}

pub(crate) const PROJECT: &str = "prj_consumer";
pub(crate) const OPERATES: [&str; 11] = [
    "adapter_step.lease",
    "adapter_step.list",
    "adapter_step.get",
    "adapter_step.heartbeat",
    "adapter_step.progress",
    "adapter_step.complete",
    "adapter_step.fail",
    "adapter_task.create",
    "adapter_task.get",
    "runtime_secret.list",
    "runtime_secret.issue",
];

impl Platform {
    /// Starts it, with an active hub and two units, and an operator's token `mst_sat_operator`.
    pub(crate) async fn start() -> Self {
        let world = World { token_life: Duration::from_secs(900), ..World::default() };
        let platform = Self { url: String::new(), world: Arc::new(Mutex::new(world)) };
        platform.account("mst_sat_operator", "operator", PROJECT, &OPERATES);
        platform.member("hub", "hub-1", "active");
        platform.member("unit", "unit-1", "joining");
        platform.member("unit", "unit-2", "active");
        let url = http::serve(platform.clone()).await;
        Self { url, ..platform }
    }

    /// Returns its state, for inspection and modification.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    pub(crate) fn account(&self, token: &str, name: &str, project: &str, permissions: &[&str]) {
        let who = Who {
            name: name.to_owned(),
            kind: "service_account".to_owned(),
            project: project.to_owned(),
            permissions: permissions.iter().map(|one| (*one).to_owned()).collect(),
            until: None,
        };
        self.world().tokens.insert(token.to_owned(), who);
    }

    pub(crate) fn member(&self, component: &str, name: &str, state: &str) {
        let member = json!({
            "id": format!("mem_{name}"), "component_key": component, "name": name, "state": state,
            "health": "unknown", "incarnation": 1, "address": "10.64.0.2", "unreachable": false,
            "gpus": 0, "cpus": 1, "memory_mb": 256, "adapter_detail": {},
        });
        self.world().members.push(serde_json::from_value(member).unwrap());
    }

    /// Queues a step for this member; without one, a reconciliation.
    pub(crate) fn ask(&self, verb: &str, member: Option<&str>) -> String {
        self.ask_in(PROJECT, verb, member)
    }

    pub(crate) fn ask_in(&self, project: &str, verb: &str, member: Option<&str>) -> String {
        let mut world = self.world();
        let id = format!("astp_{}", world.steps.len() + 1);
        let step = json!({
            "id": id, "project_id": project, "app_id": "app_1", "instance_id": "inst_1",
            "member_id": member.map(|name| format!("mem_{name}")), "incarnation": 1, "verb": verb,
            "input": Map::new(), "state": "queued", "generation": 0, "attempts": 0, "correlation_id": "c0ffee",
            "created_at": contract::now(), "expires_at": contract::now() + Duration::from_secs(3600),
        });
        world.steps.push(serde_json::from_value(step).unwrap());
        id
    }

    /// Returns the current step.
    pub(crate) fn step(&self, id: &str) -> AdapterStep {
        self.world().steps.iter().find(|step| *step.id == id).unwrap().clone()
    }

    /// Waits until the step is in this state.
    pub(crate) async fn until(&self, id: &str, state: &str) -> AdapterStep {
        for _ in 0..1500 {
            let step = self.step(id);
            if step.state.to_string() == state {
                return step;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} never came to be {state}: {:?}", self.step(id));
    }

    /// Waits until a condition holds.
    pub(crate) async fn so(&self, what: &str, is: impl Fn(&World) -> bool) {
        for _ in 0..1500 {
            if is(&self.world()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never came to be that {what}");
    }

    /// Expires the lease on a step early, so that it is offered again.
    pub(crate) fn lapse(&self, id: &str) {
        let mut world = self.world();
        let step = world.steps.iter_mut().find(|step| *step.id == id).unwrap();
        step.leased_until = Some(contract::now() - Duration::from_secs(1));
    }

    /// Gives the step to another holder.
    pub(crate) fn steal(&self, id: &str) {
        let mut world = self.world();
        let step = world.steps.iter_mut().find(|step| *step.id == id).unwrap();
        step.generation += 1;
        step.holder = Some("another".to_owned());
        step.leased_until = Some(contract::now() + Duration::from_secs(600));
    }

    /// Injects a fault into the next call of this endpoint.
    pub(crate) fn fault(&self, operation: &str, fault: Fault) {
        self.world().faults.push((operation.to_owned(), fault));
    }

    /// Returns how often an endpoint was called.
    pub(crate) fn count(&self, operation: &str) -> usize {
        self.world().calls.iter().filter(|call| call.operation == operation).count()
    }

    /// Returns the content of a file in a member's cell.
    pub(crate) fn file(&self, member: &str, path: &str) -> Option<String> {
        self.world().cells.get(&format!("mem_{member}")).and_then(|cell| cell.get(path)).cloned()
    }
}
