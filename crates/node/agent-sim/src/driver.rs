//! The simulated driver: sandboxes are records in a file, and everything else is as on a real node.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use muster_agent::driver::{CellStatus, Digest, Order, Outcome, StaleCopy, Supply, TaskOrder, Undone};
use muster_agent::stream::Inside;
use muster_agent::{AgentError, Folder};
use muster_ids::{CellId, Env};
use muster_wire::act::Act;
use muster_wire::cell::CellRef;
use muster_wire::task::{Findings, Refusal, SandboxRef, TaskKind};
use parking_lot::{Mutex, MutexGuard};

use crate::cell::CellWork;
use crate::faults::Faults;
use crate::holdings::{Holdings, Plan};
use crate::journal::{Effect, Journal, Line};
use crate::kill::{KillPoints, Stage};
use crate::program;
use crate::streams::SimulatedStreams;

const FILE: &str = "sandboxes.json";
const FAILURE: &str = "simulated failure: nothing was done";

/// Environment of a simulated node.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Journal of effects, if any.
    pub journal: Option<Arc<Journal>>,
    /// Injected faults.
    pub faults: Arc<Faults>,
    /// Crash points.
    pub kill: Arc<KillPoints>,
}

/// Sandboxes of a simulated node.
#[derive(Debug)]
pub struct Driver {
    node: String,
    folder: Folder,
    env: Env,
    around: Surroundings,
    holdings: Mutex<Holdings>,
    pulls: bool,
}

impl Driver {
    /// Opens the sandboxes of a node, also after a crash, and adds a missing last effect to the journal.
    pub fn open(node: &str, folder: &Folder, env: &Env, around: Surroundings) -> Result<Self, AgentError> {
        let holdings: Holdings = folder.read_document(FILE)?.unwrap_or_default();
        let (node, folder, env) = (node.to_owned(), folder.clone(), env.clone());
        let driver = Self { node, folder, env, around, holdings: Mutex::default(), pulls: false };
        driver.catch_up(&holdings)?;
        *driver.holdings.lock() = holdings;
        Ok(driver)
    }

    /// Fetches and verifies images like a real node, without unpacking them.
    pub fn pulling(mut self) -> Self {
        self.pulls = true;
        self
    }

    /// Adds the last effect to the journal if a crash or a full disk prevented it.
    fn catch_up(&self, holdings: &Holdings) -> Result<(), AgentError> {
        match (&self.around.journal, &holdings.last) {
            (Some(journal), Some(line)) if journal.last(&self.node) < line.seq => journal.append(line),
            _ => Ok(()),
        }
    }

    /// Lists every sandbox on the node.
    pub fn sandboxes(&self) -> Vec<SandboxRef> {
        self.holdings.lock().sandboxes()
    }

    /// Reboots the machine: its sandboxes and the files of its cells stay, and nothing runs in them. Its agent must not be
    /// running.
    pub(crate) fn reboot(&self) -> Result<(), AgentError> {
        let mut holdings = self.holdings.lock();
        let next = holdings.rebooted();
        self.write(&mut holdings, next)
    }

    fn held_cells(&self) -> Vec<CellStatus> {
        self.holdings.lock().observe()
    }

    /// Lists the sandboxes.
    fn survey(&self) -> Result<Findings, String> {
        self.reach(TaskKind::Survey, Stage::Begin);
        if self.around.faults.fails() {
            return Err(FAILURE.to_owned());
        }
        Ok(Findings { sandboxes: self.sandboxes(), ..Findings::default() })
    }

    /// Executes an order, and inspects the result. The inner error is a definite failure.
    fn execute(&self, order: &Order) -> Outcome {
        let Some(place) = order.sandbox() else { return Ok(self.survey().map_err(Undone::from)) };
        self.reach(order.kind(), Stage::Begin);
        let mut holdings = self.holdings.lock();
        self.catch_up(&holdings)?;
        let allocation = place.allocation_id;
        let plan = match order {
            Order::StaleCopy(StaleCopy::Sandbox(place)) => holdings.plan_destroy(place),
            Order::StaleCopy(StaleCopy::Cell { cell, .. }) => {
                holdings.plan_cell_destroy(&place, cell.cell_id, cell.incarnation)
            }
            Order::Task(task) => match &task.given {
                Ok(given) => holdings.plan(&task.act, &place, task.id, given.names()),
                Err(undone) => return Ok(Err(undone.clone())),
            },
        };
        let looks = matches!(order.kind(), TaskKind::Inspect | TaskKind::CellProbe);
        match plan {
            Plan::Nothing if looks && self.around.faults.fails() => {
                return Ok(Err(FAILURE.to_owned().into()));
            }
            Plan::Nothing => {}
            Plan::Refuse(why) => return Ok(Err(why.into())),
            Plan::CellDead(why) => return Ok(Err(Undone::because(Refusal::CellDead, why))),
            Plan::Violation(why) => {
                tracing::error!(node = %self.node, %allocation, why, "violation: this was not done");
                self.note(&holdings, Effect::Violation, (order, &place), &why)?;
                return Ok(Err(format!("violation: {why}").into()));
            }
            // Only an order without an effect yet can fail definitely: repeating a completed one succeeds.
            Plan::Change(..) if self.around.faults.fails() => return Ok(Err(FAILURE.to_owned().into())),
            // The tools report success. Only an inspection finds the residue.
            Plan::Change(Effect::Wiped, ..) if self.around.faults.wipe_fails() => {}
            Plan::Change(effect, devices, mut next) => {
                let mut line = self.line(&holdings, effect, (order, &place));
                line.devices = devices.into_iter().collect();
                if effect == Effect::Destroyed {
                    // The destroyed incarnation, where the order covers all up to its own.
                    line.incarnation = holdings.incarnation(allocation).unwrap_or(line.incarnation);
                }
                line.seq = next.effects;
                next.last = Some(line);
                self.write(&mut holdings, *next)?;
                self.reach(order.kind(), Stage::Journal);
                self.catch_up(&holdings)?;
            }
        }
        let cell = order.cell().map(|cell| cell.cell_id);
        let mut findings = holdings.look(allocation, devices_of(order), cell);
        if let Order::Task(task) = order
            && let Some((cell, work)) = CellWork::from_act(&task.act)
        {
            let cell = holdings.cell(allocation, cell).ok();
            findings.ran = cell.and_then(|cell| cell.ran(work, task.id));
        }
        Ok(Ok(findings))
    }

    fn write(&self, holdings: &mut MutexGuard<'_, Holdings>, next: Holdings) -> Result<(), AgentError> {
        if let Err(error) = self.folder.write_document(FILE, &next) {
            // The file decides whether it happened.
            **holdings = self.folder.read_document(FILE)?.unwrap_or_default();
            return Err(error);
        }
        **holdings = next;
        Ok(())
    }

    /// Returns the duration of an order's program while a caller waits; zero if it ran before.
    fn takes(&self, order: &Order) -> Duration {
        let Order::Task(task) = order else { return Duration::ZERO };
        let left = task.until.duration_since(self.env.now());
        self.program_takes(task).min(Duration::try_from(left).unwrap_or_default())
    }

    fn program_takes(&self, task: &TaskOrder) -> Duration {
        match &task.act {
            Act::CellCommand(act) => {
                let holdings = self.holdings.lock();
                let cell = holdings.cell(act.allocation.allocation_id, act.cell);
                if cell.is_ok_and(|cell| cell.has_run(task.id)) {
                    return Duration::ZERO;
                }
                program::duration(&act.command.command, act.command.timeout_seconds)
            }
            Act::CellProbe(act) => program::duration(&act.probe.command, act.probe.timeout_seconds),
            _ => Duration::ZERO,
        }
    }

    /// Ends the services of a cell, all or the named one. Returns whether one ended.
    pub fn end_services(&self, cell: CellId, service: Option<&str>) -> Result<bool, AgentError> {
        self.by_chance(cell, |holdings, place| holdings.plan_end(place, cell, service, false))
    }

    /// Like `end_services`, and their supervisor restarts them at once.
    pub fn crash_services(&self, cell: CellId, service: Option<&str>) -> Result<bool, AgentError> {
        self.by_chance(cell, |holdings, place| holdings.plan_end(place, cell, service, true))
    }

    /// Ends the first process of a cell. Returns whether it did.
    pub fn kill_cell(&self, cell: CellId) -> Result<bool, AgentError> {
        self.by_chance(cell, |holdings, place| holdings.plan_die(place, cell))
    }

    /// Applies a fault without a task. Returns whether it changed anything.
    fn by_chance(
        &self,
        cell: CellId,
        plan: impl FnOnce(&Holdings, &SandboxRef) -> Plan,
    ) -> Result<bool, AgentError> {
        let mut holdings = self.holdings.lock();
        self.catch_up(&holdings)?;
        let Some(found) = holdings.cells().into_iter().find(|found| found.cell_id == cell) else {
            return Ok(false);
        };
        let allocation_id = found.allocation_id;
        let incarnation = holdings.incarnation(allocation_id).unwrap_or_default();
        let place = SandboxRef { allocation_id, incarnation };
        let Plan::Change(effect, _, mut next) = plan(&holdings, &place) else {
            return Ok(false);
        };
        next.last = Some(Line {
            at: self.env.now(),
            node: self.node.clone(),
            seq: next.effects,
            effect,
            allocation_id,
            incarnation,
            cell_id: Some(cell),
            devices: Vec::new(),
            task_id: None,
            why: None,
        });
        self.write(&mut holdings, *next)?;
        self.catch_up(&holdings)?;
        Ok(true)
    }

    fn reach(&self, kind: TaskKind, stage: Stage) {
        self.around.kill.reach(kind, stage);
    }

    fn note(
        &self,
        holdings: &Holdings,
        effect: Effect,
        (order, place): (&Order, &SandboxRef),
        why: &str,
    ) -> Result<(), AgentError> {
        match &self.around.journal {
            None => Ok(()),
            Some(journal) => {
                let devices = devices_of(order).to_vec();
                journal.append(&Line {
                    devices,
                    why: Some(why.to_owned()),
                    ..self.line(holdings, effect, (order, place))
                })
            }
        }
    }

    fn line(&self, holdings: &Holdings, effect: Effect, (order, place): (&Order, &SandboxRef)) -> Line {
        Line {
            at: self.env.now(),
            node: self.node.clone(),
            seq: holdings.effects,
            effect,
            allocation_id: place.allocation_id,
            incarnation: place.incarnation,
            cell_id: order.cell().map(|cell| cell.cell_id),
            devices: Vec::new(),
            task_id: order.task_id(),
            why: None,
        }
    }
}

fn devices_of(order: &Order) -> &[String] {
    match order {
        Order::Task(task) => task.act.devices(),
        Order::StaleCopy(_) => &[],
    }
}

impl muster_agent::Driver for Driver {
    fn sandboxes(&self) -> Result<Vec<SandboxRef>, AgentError> {
        Ok(self.sandboxes())
    }

    fn cells(&self) -> Result<Vec<CellRef>, AgentError> {
        Ok(self.holdings.lock().cells())
    }

    fn observe(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<CellStatus>, AgentError>> {
        let unobservable = self.around.faults.is_unobservable();
        let found =
            if unobservable { Err(AgentError::Refused(FAILURE.to_owned())) } else { Ok(self.held_cells()) };
        Box::pin(std::future::ready(found))
    }

    fn stop_self_fenced(&self) -> Result<Vec<(CellRef, u32)>, AgentError> {
        Ok(self.holdings.lock().stop_self_fenced())
    }

    fn boot_id(&self) -> String {
        let boots = self.holdings.lock().boots;
        match boots {
            // The same id as in the simulated inventory.
            0 => format!("simulated-{}", self.node),
            again => format!("simulated-{}-{again}", self.node),
        }
    }

    fn runs(&self, cell: CellId, incarnation: i64) -> Result<bool, AgentError> {
        let runs =
            |one: CellStatus| one.alive && one.cell.cell_id == cell && one.cell.incarnation == incarnation;
        Ok(self.held_cells().into_iter().any(runs))
    }

    fn supply(&self, _: &Digest) -> Result<Supply, AgentError> {
        Ok(if self.pulls { Supply::Missing } else { Supply::Simulated })
    }

    fn reach_point(&self, point: &'static str) {
        self.around.kill.reach_point(point);
    }

    fn carry_out(self: Arc<Self>, order: Order) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            tokio::time::sleep(self.takes(&order)).await;
            self.execute(&order)
        })
    }

    fn refused_stale(&self, order: &Order, why: &str) -> Result<(), AgentError> {
        let Some(place) = order.sandbox() else { return Ok(()) };
        let holdings = self.holdings.lock();
        self.note(&holdings, Effect::RefusedStale, (order, &place), why)
    }

    fn before_report(&self, kind: TaskKind) {
        self.reach(kind, Stage::Report);
    }

    /// Simulated nodes have no file system to inspect, and all report the same one.
    fn shared_files(&self) -> Option<String> {
        Some("simulated".to_owned())
    }

    fn inside(self: Arc<Self>) -> Arc<dyn Inside> {
        Arc::new(SimulatedStreams)
    }

    fn latency(&self) -> Duration {
        self.around.faults.latency()
    }

    fn heartbeat_jitter(&self) -> Duration {
        self.around.faults.heartbeat_jitter()
    }
}
