//! A machine in a folder of its own, with an agent that can be started, killed and restarted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::SignedDuration;
use muster_agent::{Address, Agent, AgentError, Folder, Identity, Invitation, Machine as Has, Phase, Trust};
use muster_agent_sim::{
    Driver, Effect, Faults, Journal, KillPoints, Line, Odds, Surroundings, simulated_inventory,
};
use muster_ids::{AllocationId, CellId, Env};
use muster_wire::act::{
    Act, CellCreate, CellDestroy, CellInspect, CellTarget, Executor, Inspect, OwnedAllocation, Prepare,
    Resize, SandboxDevices, SandboxResources,
};
use muster_wire::task::{Amount, Task, TaskKind};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::server::Server;

pub(crate) struct Machine {
    folder: PathBuf,
    /// Removes the folder in the end, unless another machine owns it.
    _ours: Option<tempfile::TempDir>,
    pub(crate) env: Env,
    pub(crate) cut: watch::Sender<bool>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) odds: Odds,
    /// Crash points of its process.
    pub(crate) kill_at: String,
    /// Whether it pulls images.
    pub(crate) pulls: bool,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let ours = tempfile::tempdir().unwrap();
        let mut machine = Self::at(ours.path());
        machine._ours = Some(ours);
        machine
    }

    /// Returns a machine in an existing folder.
    pub(crate) fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            _ours: None,
            kill_at: String::new(),
            pulls: false,
            env: Env::system(),
            cut: watch::Sender::new(false),
            stop: watch::Sender::new(false),
            phase: watch::Sender::new(Phase::Away),
            odds: Odds::default(),
        }
    }

    pub(crate) async fn joined(server: &Server) -> Self {
        let machine = Self::new();
        machine.join(server, Trust::fingerprint(&server.ca_sha256).unwrap(), false).await.unwrap();
        machine
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn agent_folder(&self) -> Folder {
        Folder::unflushed(self.folder.join("agent"))
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.folder.join("journal.jsonl")
    }

    pub(crate) fn has(&self) -> Has {
        Has::Fixed(Arc::new(simulated_inventory("m", 4, 8, 1024, 1024)))
    }

    pub(crate) async fn join(
        &self,
        server: &Server,
        trust: Trust,
        force: bool,
    ) -> Result<Identity, AgentError> {
        let server: Address = server.url.parse().unwrap();
        let invitation = Invitation { server, token: "mst_join_x\n".into(), trust, name: "m".into() };
        let inventory = self.has().look().await;
        muster_agent::join(&self.agent_folder(), &invitation, inventory, force, &self.env).await
    }

    /// Starts an agent with only the folder as state, like a new process.
    pub(crate) fn start(&self) -> JoinHandle<Result<(), AgentError>> {
        let folder = self.agent_folder();
        let around = Surroundings {
            journal: Some(Arc::new(Journal::open(&self.journal_path()).unwrap())),
            faults: Arc::new(Faults::new(self.odds.clone(), 1, "m")),
            kill: Arc::new(KillPoints::parse(&self.kill_at).unwrap()),
        };
        let driver = Driver::open("m", &folder, &self.env, around).unwrap();
        let driver = if self.pulls { driver.pulling() } else { driver };
        self.start_with(Arc::new(driver))
    }

    /// Like `start`, with another driver.
    pub(crate) fn start_with(
        &self,
        driver: Arc<dyn muster_agent::Driver>,
    ) -> JoinHandle<Result<(), AgentError>> {
        let folder = self.agent_folder();
        let agent = Agent {
            identity: Identity::lookup(&folder).unwrap().expect("it has joined"),
            machine: self.has(),
            driver,
            folder,
            env: self.env.clone(),
            cut: self.cut.subscribe(),
            phase: self.phase.clone(),
        };
        tokio::spawn(muster_agent::run(agent, self.stop.subscribe()))
    }

    pub(crate) fn journal(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(self.journal_path()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn effects(&self) -> Vec<(Effect, i64)> {
        self.journal().iter().map(|line| (line.effect, line.incarnation)).collect()
    }

    pub(crate) fn task(&self, kind: TaskKind, allocation: AllocationId, incarnation: i64) -> Task {
        self.with_act(act(kind, owned(allocation), vec!["GPU-simulated-m-0".into()], None), incarnation)
    }

    /// A task without devices.
    pub(crate) fn bare(&self, kind: TaskKind, allocation: AllocationId, incarnation: i64) -> Task {
        self.with_act(act(kind, owned(allocation), Vec::new(), None), incarnation)
    }

    /// A task about a cell, in the first incarnation of its allocation.
    pub(crate) fn of_cell(
        &self,
        kind: TaskKind,
        allocation: AllocationId,
        cell_id: CellId,
        incarnation: i64,
    ) -> Task {
        let cell = CellTarget { executor: Executor::Cell, cell_id, incarnation };
        self.with_act(act(kind, owned(allocation), Vec::new(), Some(cell)), 1)
    }

    pub(crate) fn with_act(&self, act: Act, incarnation: i64) -> Task {
        Task {
            id: self.env.id(),
            incarnation,
            generation: 7,
            act,
            correlation_id: "thread".into(),
            expires_at: self.env.now() + SignedDuration::from_mins(5),
        }
    }
}

/// An allocation of the one project of these tests.
pub(crate) fn owned(allocation_id: AllocationId) -> OwnedAllocation {
    let env = Env::for_tests(1);
    OwnedAllocation { allocation_id, tenant_id: env.id(), project_id: env.id() }
}

fn act(kind: TaskKind, allocation: OwnedAllocation, devices: Vec<String>, cell: Option<CellTarget>) -> Act {
    let amount = Amount { cpus: 1, memory_mb: 64, disk_mb: 64 };
    let resources = SandboxResources { devices: devices.clone(), amount };
    match (kind, cell) {
        (TaskKind::Prepare, _) => Act::Prepare(Prepare { allocation, resources, exclusive: false }),
        (TaskKind::Inspect, _) => Act::Inspect(Inspect { allocation, devices, cells: Vec::new() }),
        (TaskKind::Resize, _) => Act::Resize(Resize { allocation, resources }),
        (TaskKind::Destroy, _) => Act::Destroy(SandboxDevices { allocation, devices }),
        (TaskKind::Wipe, _) => Act::Wipe(SandboxDevices { allocation, devices }),
        (TaskKind::Survey, _) => Act::Survey,
        (TaskKind::CellCreate, Some(cell)) => Act::CellCreate(Box::new(CellCreate {
            allocation,
            cell,
            name: "shell".into(),
            exclusive: false,
            spec: serde_json::from_value(json!({"root": {"host": ["/usr"]}})).unwrap(),
            attachment: None,
            pull: None,
        })),
        (TaskKind::CellInspect, Some(cell)) => Act::CellInspect(CellInspect { allocation, cell }),
        (TaskKind::CellDestroy, Some(cell)) => {
            Act::CellDestroy(CellDestroy { allocation, cell, keep_state: false })
        }
        other => panic!("no test makes {other:?} of its kind alone"),
    }
}

/// The same task with an act of another kind on the same sandbox or cell.
pub(crate) fn of_kind(kind: TaskKind, task: Task) -> Task {
    if task.act.kind() == kind {
        return task;
    }
    let (devices, cell) = (task.act.devices().to_vec(), task.act.cell());
    Task { act: act(kind, task.act.allocation().unwrap(), devices, cell), ..task }
}

/// The same task with another value at one place of its JSON.
pub(crate) fn changed(task: &Task, at: &str, value: impl Into<Value>) -> Task {
    let mut written = json!(task);
    *written.pointer_mut(at).unwrap_or_else(|| panic!("{at} is not in {task:?}")) = value.into();
    serde_json::from_value(written).unwrap()
}

/// The creation of a cell in a task.
pub(crate) fn created(task: &mut Task) -> &mut CellCreate {
    match &mut task.act {
        Act::CellCreate(act) => act,
        other => panic!("{other:?}"),
    }
}

/// A task with the action in a cell: `{"service": {…}}`.
pub(crate) fn in_cell(machine: &Machine, allocation: AllocationId, cell: CellTarget, work: &Value) -> Task {
    let (name, work) = work.as_object().unwrap().iter().next().unwrap();
    let kind = format!("cell_{name}");
    let act = json!({"kind": kind, "allocation": owned(allocation), "cell": cell, name: work});
    machine.with_act(serde_json::from_value(act).unwrap(), 1)
}

/// Ends it like `kill -9`.
pub(crate) async fn kill(running: JoinHandle<Result<(), AgentError>>) {
    running.abort();
    let _ = running.await;
}
