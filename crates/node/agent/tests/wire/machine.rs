//! A machine in a folder of its own, with an agent that can be started, killed and restarted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::SignedDuration;
use muster_agent::{Address, Agent, AgentError, Folder, Identity, Invitation, Machine as Has, Phase, Trust};
use muster_agent_sim::{
    Driver, Effect, Faults, Journal, KillPoints, Line, Odds, Surroundings, simulated_inventory,
};
use muster_ids::{AllocationId, Env};
use muster_wire::task::{Amount, Details, Task, TaskKind};
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
        let details = Details {
            devices: vec!["GPU-simulated-m-0".into()],
            amount: Amount { cpus: 1, memory_mb: 64, disk_mb: 64 },
            ..Details::default()
        };
        Task {
            id: self.env.id(),
            kind,
            allocation_id: Some(allocation),
            incarnation,
            generation: 7,
            details,
            correlation_id: "thread".into(),
            expires_at: self.env.now() + SignedDuration::from_mins(5),
        }
    }
}

/// Ends it like `kill -9`.
pub(crate) async fn kill(running: JoinHandle<Result<(), AgentError>>) {
    running.abort();
    let _ = running.await;
}
