//! A simulated cell: a map of files, services that run or not, and a few programs, so that responses depend on earlier
//! actions. Pure, like all state of the simulated node.
//!
//! It models a cell that tampers with its own programs: a command runs a file written over a program, a check never does. A
//! caller that confuses the two fails on a simulated node already.

use std::collections::{BTreeMap, BTreeSet};

use muster_ids::TaskId;
use muster_wire::act::{Act, CellCreate, CellTarget};
use muster_wire::cell::{CellFindings, ServiceFindings, ServiceState, Start};
use muster_wire::task::{CommandOrder, FilesOrder, ProbeOrder, Ran, ServiceAction, ServiceOrder};
use serde::{Deserialize, Serialize};

use crate::holdings::counted_dead;
use crate::journal::Effect;
use crate::program::{Program, View, run};

/// Directory of the secrets in a cell.
const SECRETS: &str = "/run/muster/secrets";
/// Maximum remembered command results. Commands of one cell run in sequence, each after the report of the previous one.
const REMEMBERED: usize = 32;

/// A cell in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldCell {
    pub(crate) incarnation: i64,
    name: String,
    address: Option<String>,
    services: Vec<HeldService>,
    /// Names of the content supplied by the server; the content itself is not kept.
    told: BTreeSet<String>,
    /// Written files, by path.
    files: BTreeMap<String, String>,
    /// Results of the last commands, by task.
    ran: BTreeMap<TaskId, Ran>,
    /// Reason of its end, if it ended.
    #[serde(default)]
    pub(crate) ended: Option<String>,
    /// Partition limit in seconds.
    #[serde(default)]
    pub(crate) stop_after_partition: Option<u32>,
}

/// A service of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HeldService {
    name: String,
    state: HeldState,
    restarts: u32,
    /// The task of its last restart: the same task does not restart it twice.
    restarted_by: Option<TaskId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HeldState {
    Idle,
    Running,
    Ended,
}

/// Work in or beside a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CellWork<'a> {
    Files(&'a FilesOrder),
    Service(&'a ServiceOrder),
    Command(&'a CommandOrder),
    Probe(&'a ProbeOrder),
}

impl<'a> CellWork<'a> {
    /// Returns the work of an act, and its cell; none for other acts.
    pub(crate) fn from_act(act: &'a Act) -> Option<(CellTarget, Self)> {
        Some(match act {
            Act::CellFiles(act) => (act.cell, Self::Files(&act.files)),
            Act::CellService(act) => (act.cell, Self::Service(&act.service)),
            Act::CellCommand(act) => (act.cell, Self::Command(&act.command)),
            Act::CellProbe(act) => (act.cell, Self::Probe(&act.probe)),
            _ => return None,
        })
    }
}

/// Planned effect of an action on a cell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ActPlan {
    /// No effect: already done, or read-only.
    Nothing,
    /// A change.
    Change(Effect, Box<HeldCell>),
    /// Refused in the current state.
    Refuse(String),
    /// The cell is dead.
    Dead,
}

impl HeldCell {
    pub(crate) fn new(act: &CellCreate, told: Vec<String>) -> Self {
        let spec = &act.spec;
        let service = |service: &muster_wire::cell::Service| HeldService {
            name: service.name.clone(),
            state: match service.start {
                Start::WithCell => HeldState::Running,
                Start::OnRequest => HeldState::Idle,
            },
            restarts: 0,
            restarted_by: None,
        };
        Self {
            incarnation: act.cell.incarnation,
            name: act.name.clone(),
            address: act.attachment.as_ref().map(|attachment| attachment.address.clone()),
            services: spec.services.iter().map(service).collect(),
            told: told.into_iter().collect(),
            files: spec.files.iter().map(|file| (file.path.clone(), file.text.clone())).collect(),
            ran: BTreeMap::new(),
            ended: None,
            stop_after_partition: spec.stop_after_partition,
        }
    }

    /// Returns the observations of it: a running service is ready at once.
    pub(crate) fn look(&self) -> CellFindings {
        if self.ended.is_some() {
            return CellFindings {
                incarnation: self.incarnation,
                checked: vec!["the records of the simulated node".to_owned()],
                death: Some(counted_dead()),
                ..CellFindings::default()
            };
        }
        let service = |service: &HeldService| {
            let running = service.state == HeldState::Running;
            ServiceFindings {
                name: service.name.clone(),
                state: match service.state {
                    HeldState::Idle => ServiceState::Idle,
                    HeldState::Running => ServiceState::Running,
                    HeldState::Ended => ServiceState::Ended,
                },
                pid: u32::from(running),
                ready: running,
                restarts: service.restarts,
                exit: (service.state == HeldState::Ended).then_some(1),
                message: (service.state == HeldState::Ended).then(|| "it was ended by control".to_owned()),
            }
        };
        CellFindings {
            present: true,
            incarnation: self.incarnation,
            pid: 1,
            address: self.address.clone(),
            services: self.services.iter().map(service).collect(),
            ..CellFindings::default()
        }
    }

    /// Plans an action. `told` names the content supplied by the server.
    pub(crate) fn plan(&self, work: CellWork<'_>, task: TaskId, told: Vec<String>) -> ActPlan {
        let stops = |order: &ServiceOrder| order.action == ServiceAction::Stop;
        match work {
            // All its processes ended with the first one.
            CellWork::Service(order) if self.ended.is_some() && stops(order) => ActPlan::Nothing,
            _ if self.ended.is_some() => ActPlan::Dead,
            CellWork::Files(order) => self.plan_files(order, told),
            CellWork::Service(order) => self.plan_service(order, task),
            CellWork::Command(order) => self.plan_command(order, task),
            CellWork::Probe(order) => match order.sees.iter().find_map(|path| strange(path)) {
                Some(why) => ActPlan::Refuse(why),
                None => ActPlan::Nothing,
            },
        }
    }

    fn plan_files(&self, order: &FilesOrder, told: Vec<String>) -> ActPlan {
        let mut next = self.clone();
        let paths = order.write.iter().map(|file| &file.path).chain(&order.remove);
        if let Some(why) = paths.into_iter().find_map(|path| strange(path)) {
            return ActPlan::Refuse(why);
        }
        for path in &order.remove {
            if self.files.keys().any(|other| beneath(other, path)) {
                return ActPlan::Refuse(format!("{path} is a directory that is not empty"));
            }
            next.files.remove(path);
        }
        next.files.extend(order.write.iter().map(|file| (file.path.clone(), file.text.clone())));
        next.told.extend(told);
        if next == *self {
            return ActPlan::Nothing;
        }
        ActPlan::Change(Effect::FilesWritten, Box::new(next))
    }

    fn plan_service(&self, order: &ServiceOrder, task: TaskId) -> ActPlan {
        let mut next = self.clone();
        let Some(service) = next.services.iter_mut().find(|service| service.name == order.name) else {
            let names: Vec<&str> = self.services.iter().map(|service| service.name.as_str()).collect();
            return ActPlan::Refuse(format!("no service of the cell is named {}: {names:?} are", order.name));
        };
        let runs = service.state == HeldState::Running;
        let effect = match order.action {
            ServiceAction::Start if runs => return ActPlan::Nothing,
            ServiceAction::Start => Effect::ServiceStarted,
            ServiceAction::Stop if service.state == HeldState::Idle => return ActPlan::Nothing,
            ServiceAction::Stop => Effect::ServiceStopped,
            ServiceAction::Restart if service.restarted_by == Some(task) => return ActPlan::Nothing,
            ServiceAction::Restart => Effect::ServiceRestarted,
        };
        service.state = if effect == Effect::ServiceStopped { HeldState::Idle } else { HeldState::Running };
        if effect == Effect::ServiceRestarted {
            service.restarted_by = Some(task);
            service.restarts += u32::from(runs);
        }
        ActPlan::Change(effect, Box::new(next))
    }

    fn plan_command(&self, order: &CommandOrder, task: TaskId) -> ActPlan {
        if self.ran.contains_key(&task) {
            return ActPlan::Nothing;
        }
        let mut next = self.clone();
        let program = Program {
            command: &order.command,
            stdin: &order.stdin,
            timeout_seconds: order.timeout_seconds,
            may_write: true,
        };
        let (ran, written) = run(&self.view(), &program);
        next.files.extend(written);
        while next.ran.len() >= REMEMBERED {
            next.ran.pop_first();
        }
        next.ran.insert(task, ran);
        ActPlan::Change(Effect::CommandRan, Box::new(next))
    }

    /// Returns the result of the work's program: the remembered one for a command, a new run for a check.
    pub(crate) fn ran(&self, work: CellWork<'_>, task: TaskId) -> Option<Ran> {
        match work {
            CellWork::Files(_) | CellWork::Service(_) => None,
            CellWork::Command(_) => self.ran.get(&task).cloned(),
            CellWork::Probe(order) => Some(self.probe(order)),
        }
    }

    fn probe(&self, order: &ProbeOrder) -> Ran {
        let sees = |path: &str| order.sees.iter().any(|seen| path == seen || beneath(path, seen));
        let mut view = self.view();
        view.files.retain(|path, _| sees(path));
        // A check runs the image's own programs, whatever was written over them in the cell.
        view.forged.clear();
        let program = Program {
            command: &order.command,
            stdin: "",
            timeout_seconds: order.timeout_seconds,
            may_write: false,
        };
        run(&view, &program).0
    }

    fn view(&self) -> View {
        let secret = |told: &String| Some(format!("{SECRETS}/{}", told.strip_prefix("secret ")?));
        let secrets = self.told.iter().filter_map(secret);
        let secrets = secrets.map(|path| (path, "a simulated node has no secrets".to_owned()));
        View {
            hostname: self.name.clone(),
            files: self.files.clone().into_iter().chain(secrets).collect(),
            forged: self.files.clone(),
        }
    }

    /// Ends its services, or the named one; `None` if that changes nothing.
    pub(crate) fn end(&self, service: Option<&str>) -> Option<Self> {
        let mut next = self.clone();
        let meant = |held: &&mut HeldService| {
            held.state == HeldState::Running && service.is_none_or(|name| name == held.name)
        };
        next.services.iter_mut().filter(meant).for_each(|held| held.state = HeldState::Ended);
        (next != *self).then_some(next)
    }

    /// Ends its first process, and all others with it; `None` if it ended already.
    pub(crate) fn die(&self) -> Option<Self> {
        self.ended
            .is_none()
            .then(|| Self { ended: Some("its first process ended".to_owned()), ..self.clone() })
    }

    /// Ends its services, or the named one, and has their supervisor restart them; `None` if that changes nothing.
    pub(crate) fn crash(&self, service: Option<&str>) -> Option<Self> {
        let mut next = self.clone();
        let meant = |held: &&mut HeldService| {
            held.state == HeldState::Running && service.is_none_or(|name| name == held.name)
        };
        next.services.iter_mut().filter(meant).for_each(|held| held.restarts += 1);
        (next != *self).then_some(next)
    }

    /// Reports whether a command of this task ran.
    pub(crate) fn has_run(&self, task: TaskId) -> bool {
        self.ran.contains_key(&task)
    }
}

/// Reports whether a path is in a directory, at any depth.
fn beneath(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

/// Returns the reason why this is no valid path in a cell, if any.
fn strange(path: &str) -> Option<String> {
    let parts = path.strip_prefix('/').map(|rest| rest.split('/'));
    let plain =
        parts.is_some_and(|mut parts| path == "/" || parts.all(|part| !matches!(part, "" | "." | "..")));
    (!plain).then(|| format!("{path:?} is not a path in a cell: write it absolute, without . and .."))
}

#[cfg(test)]
mod tests;
