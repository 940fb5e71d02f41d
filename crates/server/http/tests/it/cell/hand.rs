//! A node with an agent played by the test, over the real protocol. It stores what it is given, and reports what the test
//! wants.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_ids::{AllocationId, CellId, NodeId};
use muster_wire::act::{Act, Prepare, Resize};
use muster_wire::cell::{CellFindings, DesiredState, ServiceFindings, ServiceState};
use muster_wire::inventory::Inventory;
use muster_wire::task::{Findings, Task, TaskKind};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Scene;
use crate::fleet_api::{approve, inventory};
use crate::node_wire::agent::Agent;

/// Address of its node.
pub(super) const ADDRESS: &str = "192.0.2.1";

/// Modifies the findings of a task.
type Tamper = Box<dyn Fn(&Task, &mut Findings) + Send>;

/// Contents of the node, and the tasks it received.
#[derive(Default)]
pub(super) struct Held {
    places: BTreeMap<AllocationId, Findings>,
    cells: BTreeMap<CellId, (AllocationId, CellFindings)>,
    /// Every task received, in order.
    pub(super) tasks: Vec<Task>,
    /// Every desired state received, in order.
    pub(super) desired: Vec<DesiredState>,
    /// Whether the desired state is ignored.
    pub(super) idle: bool,
    pub(super) tamper: Option<Tamper>,
}

impl Held {
    fn carry_out(&mut self, task: &Task) -> Findings {
        let Some(owned) = task.act.allocation() else { return Findings::default() };
        let allocation = owned.allocation_id;
        match &task.act {
            Act::Prepare(Prepare { resources, .. }) | Act::Resize(Resize { resources, .. }) => {
                let (devices, amount) = (resources.devices.clone(), resources.amount);
                let incarnation = task.incarnation;
                let found = Findings { present: true, incarnation, devices, amount, ..Findings::default() };
                self.places.insert(allocation, found);
            }
            Act::Destroy(_) => {
                self.places.remove(&allocation);
                self.cells.retain(|_, (of, _)| *of != allocation);
            }
            Act::CellCreate(act) => {
                let service = |name: &str| ServiceFindings {
                    name: name.to_owned(),
                    state: ServiceState::Running,
                    pid: 7,
                    ready: true,
                    restarts: 0,
                    exit: None,
                    message: None,
                };
                let found = CellFindings {
                    present: true,
                    incarnation: act.cell.incarnation,
                    pid: 7,
                    address: act.attachment.as_ref().map(|attachment| attachment.address.clone()),
                    services: act.spec.services.iter().map(|one| service(&one.name)).collect(),
                    ..CellFindings::default()
                };
                self.cells.insert(act.cell.cell_id, (allocation, found));
            }
            Act::CellDestroy(act) => drop(self.cells.remove(&act.cell.cell_id)),
            _ => {}
        }
        let mut found = self.places.get(&allocation).cloned().unwrap_or_default();
        let of_cell =
            |cell: CellId| self.cells.get(&cell).map(|(_, found)| found.clone()).unwrap_or_default();
        found.cell = task.act.cell().map(|cell| of_cell(cell.cell_id));
        if let Some(tamper) = &self.tamper {
            tamper(task, &mut found);
        }
        self.tasks.push(task.clone());
        found
    }
}

/// Returns the inventory of such a machine: no GPUs.
pub(super) fn machine(name: &str) -> Inventory {
    Inventory { gpus: Vec::new(), ..inventory(name, 2) }
}

/// The node. Its agent runs until this is dropped.
pub(super) struct Hand {
    pub(super) node: NodeId,
    pub(super) agent: Arc<Agent>,
    pub(super) held: Arc<Mutex<Held>>,
    playing: tokio::task::JoinHandle<()>,
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.playing.abort();
    }
}

/// Returns an agent that has sent hello, on a node that accepts allocations.
pub(super) async fn approved(scene: &Scene, at: usize) -> Agent {
    let mut agent = Agent::join(&scene.kit, at).await;
    agent.session = hello(&agent, json!({})).await["session"].as_i64().unwrap();
    let digest = machine(&agent.name).hardware_digest();
    approve(&scene.kit.operator(), &agent.name, &digest).await.ok();
    agent
}

/// Sends hello with this, and nothing else on the node.
pub(super) async fn hello(agent: &Agent, also: Value) -> Value {
    let mut body = json!({"agent_version": "0.1.0", "inventory": machine(&agent.name), "sandboxes": []});
    body.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
    agent.send("hello", &body).await.ok()
}

/// Polls with this revision.
pub(super) async fn poll(agent: &Agent, wait_seconds: u64, revision: i64) -> Value {
    let body = json!({"session": agent.session, "wait_seconds": wait_seconds, "revision": revision});
    agent.send("poll", &body).await.ok()
}

/// Returns a report that a task is done.
pub(super) fn report(task: &Task, findings: &Findings) -> Value {
    json!({"task_id": task.id, "incarnation": task.incarnation, "generation": task.generation,
           "ending": "done", "findings": findings})
}

impl Hand {
    /// Joins at server `at`, and runs the agent.
    pub(super) async fn start(scene: &Scene, at: usize) -> Self {
        let mut agent = approved(scene, at).await;
        let found_at = hello(&agent, json!({"address": ADDRESS})).await;
        agent.session = found_at["session"].as_i64().unwrap();
        let (node, held) = (agent.node, Arc::new(Mutex::new(Held::default())));
        let (agent, shared) = (Arc::new(agent), held.clone());
        let played = agent.clone();
        let playing = tokio::spawn(async move {
            let mut revision = 0;
            loop {
                let work = poll(&played, 1, revision).await;
                if let Some(desired) = work.get("desired") {
                    let desired: DesiredState = serde_json::from_value(desired.clone()).unwrap();
                    let mut held = shared.lock();
                    if !held.idle {
                        revision = desired.revision;
                    }
                    held.desired.push(desired);
                }
                let tasks: Vec<Task> = serde_json::from_value(work["tasks"].clone()).unwrap();
                let reports: Vec<Value> =
                    tasks.iter().map(|task| report(task, &shared.lock().carry_out(task))).collect();
                if !reports.is_empty() {
                    let body = json!({"session": played.session, "reports": reports});
                    assert_eq!(played.send("report", &body).await.ok()["refused"], json!([]));
                } else if shared.lock().idle {
                    // An agent that does not apply the desired state gets it again immediately.
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        });
        Self { node, agent, held, playing }
    }

    pub(super) fn tamper(&self, tamper: impl Fn(&Task, &mut Findings) + Send + 'static) {
        self.held.lock().tamper = Some(Box::new(tamper));
    }

    /// Returns the tasks of a kind received, in order.
    pub(super) fn tasks(&self, kind: TaskKind) -> Vec<Task> {
        self.held.lock().tasks.iter().filter(|task| task.act.kind() == kind).cloned().collect()
    }
}
