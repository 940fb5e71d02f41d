//! The simulated driver: places are records in a file, and everything else about them is as on a real node.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use muster_cell::CellStatus;
use muster_ids::{CellId, TaskId, World};
use muster_wire::cell::CellPlace;
use muster_wire::task::{CellAct, Findings, Place, Refusal, TaskKind};

use super::faults::Faults;
use super::holdings::{Holdings, Plan};
use super::journal::{Effect, Journal, Line};
use super::kill::{KillPoints, Stage};
use super::program;
use crate::AgentError;
use crate::driver::{Order, Outcome, Supply, Undone};
use crate::folder::Folder;
use crate::stream::{Inside, Toy};

const FILE: &str = "places.json";
const FAILURE: &str = "simulated failure: nothing was done";

/// What surrounds a simulated node.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Where effects are written down, if anywhere.
    pub journal: Option<Arc<Journal>>,
    /// What goes wrong.
    pub faults: Arc<Faults>,
    /// Where the process ends itself.
    pub kill: Arc<KillPoints>,
}

/// The places of a simulated node.
#[derive(Debug)]
pub struct Driver {
    node: String,
    folder: Folder,
    world: World,
    around: Surroundings,
    holdings: Mutex<Holdings>,
    pulls: bool,
}

impl Driver {
    /// Finds the places that a node had, also after a crash; what the journal lacks of the last effect is added.
    pub fn open(
        node: &str,
        folder: &Folder,
        world: &World,
        around: Surroundings,
    ) -> Result<Self, AgentError> {
        let holdings: Holdings = folder.read_document(FILE)?.unwrap_or_default();
        let (node, folder, world) = (node.to_owned(), folder.clone(), world.clone());
        let driver = Self { node, folder, world, around, holdings: Mutex::default(), pulls: false };
        driver.catch_up(&holdings)?;
        *driver.holdings.lock().expect("no holder of this lock can panic") = holdings;
        Ok(driver)
    }

    /// Fetches and verifies images as a real node does, and unpacks none of them.
    pub fn pulling(mut self) -> Self {
        self.pulls = true;
        self
    }

    pub(crate) fn supply(&self) -> Supply {
        if self.pulls { Supply::Missing } else { Supply::Pretended }
    }

    pub(crate) fn reach_point(&self, point: &'static str) {
        self.around.kill.reach_point(point);
    }

    /// Adds the last effect to the journal, if a crash or a full disk kept it from there.
    fn catch_up(&self, holdings: &Holdings) -> Result<(), AgentError> {
        match (&self.around.journal, &holdings.last) {
            (Some(journal), Some(line)) if journal.last(&self.node) < line.seq => journal.append(line),
            _ => Ok(()),
        }
    }

    /// What streams find inside its cells.
    pub(crate) fn inside(&self) -> Arc<dyn Inside> {
        Arc::new(Toy)
    }

    /// The chance that rules here.
    pub(crate) fn faults(&self) -> &Faults {
        &self.around.faults
    }

    /// Every place on the node.
    pub fn places(&self) -> Vec<Place> {
        self.holdings.lock().expect("no holder of this lock can panic").places()
    }

    /// Every cell on the node.
    pub(crate) fn cells(&self) -> Vec<CellPlace> {
        self.holdings.lock().expect("no holder of this lock can panic").cells()
    }

    /// Which start of the simulated machine this is.
    pub(crate) fn boot_id(&self) -> String {
        let boots = self.holdings.lock().expect("no holder of this lock can panic").boots;
        match boots {
            // As the simulated machine itself has it.
            0 => format!("simulated-{}", self.node),
            again => format!("simulated-{}-{again}", self.node),
        }
    }

    /// Whether this incarnation of a cell runs.
    pub(crate) fn runs(&self, cell: CellId, incarnation: i64) -> bool {
        let runs =
            |one: CellStatus| one.alive && one.cell.cell_id == cell && one.cell.incarnation == incarnation;
        self.held_cells().into_iter().any(runs)
    }

    /// The machine starts anew: its places and the files of its cells are there, and nothing runs in them. Its agent must not run.
    pub(super) fn reboot(&self) -> Result<(), AgentError> {
        let mut holdings = self.holdings.lock().expect("no holder of this lock can panic");
        let next = holdings.rebooted();
        self.write(&mut holdings, next)
    }

    /// The status of every cell.
    pub(crate) fn observe(&self) -> Result<Vec<CellStatus>, AgentError> {
        if self.around.faults.is_unobservable() {
            return Err(AgentError::Refused(FAILURE.to_owned()));
        }
        Ok(self.held_cells())
    }

    fn held_cells(&self) -> Vec<CellStatus> {
        self.holdings.lock().expect("no holder of this lock can panic").observe()
    }

    /// The cells that must not go on without the platform.
    pub(crate) fn stop_alone(&self) -> Vec<(CellPlace, u32)> {
        self.holdings.lock().expect("no holder of this lock can panic").stop_alone()
    }

    /// Lists what is there.
    fn survey(&self) -> Result<Findings, String> {
        self.reach(TaskKind::Survey, Stage::Begin);
        if self.around.faults.fails() {
            return Err(FAILURE.to_owned());
        }
        Ok(Findings { places: self.places(), ..Findings::default() })
    }

    /// Carries an order out, and looks what is there afterwards. The inner error is "surely not done".
    pub(crate) fn carry_out(&self, order: &Order) -> Outcome {
        let Some(place) = &order.place else { return Ok(self.survey().map_err(Undone::from)) };
        self.reach(order.kind, Stage::Begin);
        let mut holdings = self.holdings.lock().expect("no holder of this lock can panic");
        self.catch_up(&holdings)?;
        let allocation = place.allocation_id;
        let told = match &order.given {
            Ok(given) => given.names(),
            Err(undone) => return Ok(Err(undone.clone())),
        };
        let looks = matches!(order.kind, TaskKind::Inspect | TaskKind::CellProbe);
        match holdings.plan(order.kind, place, &order.details, order.task, told) {
            Plan::Nothing if looks && self.around.faults.fails() => {
                return Ok(Err(FAILURE.to_owned().into()));
            }
            Plan::Nothing => {}
            Plan::Refuse(why) => return Ok(Err(why.into())),
            Plan::CellDead(why) => return Ok(Err(Undone::because(Refusal::CellDead, why))),
            Plan::Violation(why) => {
                tracing::error!(node = %self.node, %allocation, why, "violation: this was not done");
                self.note(&holdings, Effect::Violation, (order, place), &why)?;
                return Ok(Err(format!("violation: {why}").into()));
            }
            // Only what has not been done can fail as "surely not done": a repetition of what was done succeeds.
            Plan::Change(..) if self.around.faults.fails() => return Ok(Err(FAILURE.to_owned().into())),
            // The tools said that they were done. What is left is seen only by looking.
            Plan::Change(Effect::Wiped, ..) if self.around.faults.wipe_fails() => {}
            Plan::Change(effect, devices, mut next) => {
                let mut line = self.line(&holdings, effect, (order, place));
                line.devices = devices.into_iter().collect();
                if effect == Effect::Destroyed {
                    // Which one was destroyed, where the order was for any up to its own.
                    line.incarnation = holdings.incarnation(allocation).unwrap_or(line.incarnation);
                }
                line.seq = next.effects;
                next.last = Some(line);
                self.write(&mut holdings, *next)?;
                self.reach(order.kind, Stage::Journal);
                self.catch_up(&holdings)?;
            }
        }
        let mut findings = holdings.look(allocation, &order.details);
        if let Some(act) = &order.details.act {
            let cell = holdings.cell(allocation, &order.details).ok();
            findings.ran = cell.and_then(|cell| cell.ran(act, order.task));
        }
        Ok(Ok(findings))
    }

    fn write(&self, holdings: &mut MutexGuard<'_, Holdings>, next: Holdings) -> Result<(), AgentError> {
        if let Err(error) = self.folder.write_document(FILE, &next) {
            // Whether it happened is what the file says.
            **holdings = self.folder.read_document(FILE)?.unwrap_or_default();
            return Err(error);
        }
        **holdings = next;
        Ok(())
    }

    /// How long what an order runs takes before it ends, while somebody waits for it; nothing, if it ran before.
    pub(crate) fn takes(&self, order: &Order) -> Duration {
        let Some((place, act)) = order.place.as_ref().zip(order.details.act.as_ref()) else {
            return Duration::ZERO;
        };
        let holdings = self.holdings.lock().expect("no holder of this lock can panic");
        let ran = |task: TaskId| {
            holdings.cell(place.allocation_id, &order.details).is_ok_and(|cell| cell.has_run(task))
        };
        let takes = match act {
            CellAct::Command(_) if order.task.is_some_and(ran) => Duration::ZERO,
            CellAct::Command(command) => program::duration(&command.command, command.timeout_seconds),
            CellAct::Probe(probe) => program::duration(&probe.command, probe.timeout_seconds),
            CellAct::Files(_) | CellAct::Service(_) => Duration::ZERO,
        };
        let left = order.until.duration_since(self.world.now());
        takes.min(Duration::try_from(left).unwrap_or_default())
    }

    /// Has the services of a cell end by themselves, all of them or the one that is named. Says whether one did.
    pub fn end_services(&self, cell: CellId, service: Option<&str>) -> Result<bool, AgentError> {
        self.by_chance(cell, |holdings, place| holdings.plan_end(place, cell, service, false))
    }

    /// The same, and their supervisor restarts them at once.
    pub fn crash_services(&self, cell: CellId, service: Option<&str>) -> Result<bool, AgentError> {
        self.by_chance(cell, |holdings, place| holdings.plan_end(place, cell, service, true))
    }

    /// Has the first process of a cell end. Says whether it did.
    pub fn kill_cell(&self, cell: CellId) -> Result<bool, AgentError> {
        self.by_chance(cell, |holdings, place| holdings.plan_die(place, cell))
    }

    /// Applies a fault that no task asked for. Returns whether it changed anything.
    fn by_chance(
        &self,
        cell: CellId,
        plan: impl FnOnce(&Holdings, &Place) -> Plan,
    ) -> Result<bool, AgentError> {
        let mut holdings = self.holdings.lock().expect("no holder of this lock can panic");
        self.catch_up(&holdings)?;
        let Some(found) = holdings.cells().into_iter().find(|found| found.cell_id == cell) else {
            return Ok(false);
        };
        let allocation_id = found.allocation_id;
        let incarnation = holdings.incarnation(allocation_id).unwrap_or_default();
        let place = Place { allocation_id, incarnation };
        let Plan::Change(effect, _, mut next) = plan(&holdings, &place) else {
            return Ok(false);
        };
        next.last = Some(Line {
            at: self.world.now(),
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

    /// Writes down that something old was asked for and refused.
    pub(crate) fn refused_stale(&self, order: &Order, why: &str) -> Result<(), AgentError> {
        let Some(place) = &order.place else { return Ok(()) };
        let holdings = self.holdings.lock().expect("no holder of this lock can panic");
        self.note(&holdings, Effect::RefusedStale, (order, place), why)
    }

    /// The report is next.
    pub(crate) fn before_report(&self, kind: TaskKind) {
        self.reach(kind, Stage::Report);
    }

    fn reach(&self, kind: TaskKind, stage: Stage) {
        self.around.kill.reach(kind, stage);
    }

    fn note(
        &self,
        holdings: &Holdings,
        effect: Effect,
        (order, place): (&Order, &Place),
        why: &str,
    ) -> Result<(), AgentError> {
        match &self.around.journal {
            None => Ok(()),
            Some(journal) => {
                let devices = order.details.devices.clone();
                journal.append(&Line {
                    devices,
                    why: Some(why.to_owned()),
                    ..self.line(holdings, effect, (order, place))
                })
            }
        }
    }

    fn line(&self, holdings: &Holdings, effect: Effect, (order, place): (&Order, &Place)) -> Line {
        Line {
            at: self.world.now(),
            node: self.node.clone(),
            seq: holdings.effects,
            effect,
            allocation_id: place.allocation_id,
            incarnation: place.incarnation,
            cell_id: order.details.cell.as_ref().map(|cell| cell.cell_id),
            devices: Vec::new(),
            task_id: order.task,
            why: None,
        }
    }
}
