use muster_ids::{Env, TaskId};
use muster_wire::act::{Act, CellCreate, CellTarget, Executor, OwnedAllocation};
use muster_wire::cell::ServiceState;
use muster_wire::task::Ran;
use serde_json::json;

use super::{ActPlan, CellWork, HeldCell};
use crate::journal::Effect;

struct Case {
    env: Env,
    cell: HeldCell,
}

fn case() -> Case {
    let env = Env::for_tests(1);
    let spec = json!({
        "root": {"host": ["/usr"]},
        "services": [{"name": "main", "command": ["/x"]}, {"name": "later", "command": ["/x"], "start": "on_request"}],
        "files": [{"path": "/etc/made", "text": "made"}],
    });
    let (allocation, cell) = target(&env);
    let create = CellCreate {
        allocation,
        cell,
        name: "m-1".into(),
        exclusive: false,
        spec: serde_json::from_value(spec).unwrap(),
        attachment: None,
        pull: None,
    };
    let cell = HeldCell::new(&create, Vec::new());
    Case { env, cell }
}

fn target(env: &Env) -> (OwnedAllocation, CellTarget) {
    let allocation = OwnedAllocation { allocation_id: env.id(), tenant_id: env.id(), project_id: env.id() };
    (allocation, CellTarget { executor: Executor::Cell, cell_id: env.id(), incarnation: 1 })
}

/// Builds an act in a cell from its work: `{"service": {…}}`.
fn act(work: serde_json::Value) -> Act {
    let (allocation, cell) = target(&Env::for_tests(2));
    let (name, work) = work.as_object().unwrap().iter().next().unwrap();
    let act = json!({"kind": format!("cell_{name}"), "allocation": allocation, "cell": cell, name: work});
    serde_json::from_value(act).unwrap()
}

fn work(act: &Act) -> CellWork<'_> {
    CellWork::from_act(act).unwrap().1
}

impl Case {
    /// Applies it as a task, and again as the same task, which must change nothing.
    fn does(&mut self, act: &Act) -> Option<Effect> {
        let task: TaskId = self.env.id();
        let effect = match self.cell.plan(work(act), task, Vec::new()) {
            ActPlan::Nothing => None,
            ActPlan::Refuse(why) => panic!("{act:?}: {why}"),
            ActPlan::Dead => panic!("{act:?}: the cell is dead"),
            ActPlan::Change(effect, next) => {
                self.cell = *next;
                Some(effect)
            }
        };
        let (again, ran) = (self.cell.plan(work(act), task, Vec::new()), self.cell.ran(work(act), task));
        assert_eq!(again, ActPlan::Nothing, "{act:?}");
        assert_eq!(self.cell.ran(work(act), task), ran, "{act:?}");
        effect
    }

    fn refuses(&self, act: &Act) -> String {
        match self.cell.plan(work(act), self.env.id(), Vec::new()) {
            ActPlan::Refuse(why) => why,
            other => panic!("{act:?}: {other:?}"),
        }
    }

    fn runs(&mut self, command: &[&str]) -> Ran {
        let (act, task) = (act(json!({"command": {"command": command}})), self.env.id());
        let ActPlan::Change(Effect::CommandRan, next) = self.cell.plan(work(&act), task, Vec::new()) else {
            panic!("{command:?} did not run");
        };
        self.cell = *next;
        self.cell.ran(work(&act), task).unwrap()
    }

    fn probes(&self, command: &[&str], sees: &[&str]) -> Ran {
        let probe = act(json!({"probe": {"command": command, "sees": sees}}));
        let task: TaskId = self.env.id();
        assert_eq!(self.cell.plan(work(&probe), task, Vec::new()), ActPlan::Nothing);
        self.cell.ran(work(&probe), task).unwrap()
    }

    fn state(&self, service: &str) -> (ServiceState, bool, u32) {
        let found = self.cell.look().services.into_iter().find(|found| found.name == service).unwrap();
        (found.state, found.ready, found.restarts)
    }
}

#[test]
fn files_are_written_removed_and_read_and_each_act_is_done_once() {
    let mut case = case();
    let files = |write: &[(&str, &str)], remove: &[&str]| {
        let write: Vec<_> = write.iter().map(|(path, text)| json!({"path": path, "text": text})).collect();
        act(json!({"files": {"write": write, "remove": remove}}))
    };
    assert_eq!(case.runs(&["/bin/cat", "/etc/made"]).stdout, "made");
    assert_eq!(
        case.does(&files(&[("/etc/d/a", "one")], &["/etc/made", "/not/there"])),
        Some(Effect::FilesWritten)
    );
    assert_eq!(case.does(&files(&[("/etc/d/a", "one")], &[])), None);
    assert_eq!(case.runs(&["/bin/cat", "/etc/d/a"]).stdout, "one");
    assert_eq!(case.runs(&["/bin/cat", "/etc/made"]).exit, 1);
    assert!(case.refuses(&files(&[], &["/etc/d"])).contains("is not empty"));
    for wrong in ["a", "/a/../b", "/a//b", ""] {
        assert!(case.refuses(&files(&[(wrong, "")], &[])).contains("is not a path"), "{wrong}");
    }
    case.runs(&["/bin/write", "/w", "by-command"]);
    assert_eq!(case.runs(&["/bin/cat", "/w"]).stdout, "by-command");
}

#[test]
fn a_service_on_request_is_idle_until_somebody_asks() {
    let mut case = case();
    let order = |name: &str, action: &str| act(json!({"service": {"name": name, "action": action}}));
    assert_eq!(case.state("main"), (ServiceState::Running, true, 0));
    assert_eq!(case.state("later"), (ServiceState::Idle, false, 0));
    assert_eq!(case.does(&order("later", "stop")), None);
    assert_eq!(case.does(&order("later", "start")), Some(Effect::ServiceStarted));
    assert_eq!(case.does(&order("later", "start")), None);
    // Each further task restarts it once.
    assert_eq!(case.does(&order("later", "restart")), Some(Effect::ServiceRestarted));
    assert_eq!(case.does(&order("later", "restart")), Some(Effect::ServiceRestarted));
    assert_eq!(case.state("later"), (ServiceState::Running, true, 2));
    assert_eq!(case.does(&order("later", "stop")), Some(Effect::ServiceStopped));
    assert_eq!(case.state("later"), (ServiceState::Idle, false, 2));
    assert!(case.refuses(&order("other", "start")).contains("later"));
    case.cell = case.cell.end(None).unwrap();
    assert_eq!(case.state("main"), (ServiceState::Ended, false, 0));
    assert_eq!(case.state("later"), (ServiceState::Idle, false, 2), "what does not run does not end");
    assert_eq!(case.cell.end(Some("main")), None);
    assert_eq!(case.does(&order("main", "start")), Some(Effect::ServiceStarted));
}

/// Attack: the cell's own program is overwritten. A command runs the forgery, a check does not.
#[test]
fn a_forged_program_deceives_a_command_and_no_check() {
    let mut case = case();
    case.runs(&["/bin/write", "/state/a", "true"]);
    case.does(&act(json!({"files": {"write": [{"path": "/bin/cat", "text": "forged"}]}})));
    assert_eq!(case.runs(&["/bin/cat", "/state/a"]).stdout, "forged");
    assert_eq!(case.probes(&["/bin/cat", "/state/a"], &["/state"]).stdout, "true");
    assert_eq!(case.probes(&["/bin/cat", "/bin/cat"], &["/bin"]).stdout, "forged", "to read it is no danger");
    // A script runs its lines.
    let scripts =
        [("/bin/cat", "#!/bin/sh\necho UP\n"), ("/bin/test", "#!/bin/sh\necho no\nexit 1\necho never\n")];
    let scripts = scripts.map(|(path, text)| json!({"path": path, "text": text}));
    case.does(&act(json!({"files": {"write": scripts}})));
    let ran = |ran: muster_wire::task::Ran| (ran.exit, ran.stdout);
    assert_eq!(ran(case.runs(&["/bin/cat", "/state/a"])), (0, "UP\n".to_owned()));
    assert_eq!(ran(case.runs(&["/bin/test", "-e", "/state/a"])), (1, "no\n".to_owned()));
    assert_eq!(ran(case.probes(&["/bin/cat", "/state/a"], &["/state"])), (0, "true".to_owned()));
    assert_eq!(ran(case.probes(&["/bin/test", "-e", "/state/a"], &["/state"])), (0, String::new()));
    case.does(&act(json!({"files": {"write": [{"path": "/bin/true", "text": "#!/bin/sh\nrm -rf /\n"}]}})));
    assert_eq!(case.runs(&["/bin/true"]).exit, 127, "nothing else is known");
    // A check has no access to other directories, and changes nothing.
    assert_eq!(case.probes(&["/bin/cat", "/state/a"], &["/stat"]).exit, 1);
    assert_eq!(case.probes(&["/bin/write", "/state/a", "x"], &["/state"]).exit, 127);
    assert_eq!(case.probes(&["/bin/hostname"], &[]).stdout, "m-1\n");
}

#[test]
fn a_dead_cell_does_nothing_and_its_services_count_as_stopped() {
    let mut case = case();
    case.cell = case.cell.die().unwrap();
    assert_eq!(case.cell.die(), None, "it dies once");
    for refused in [
        act(json!({"command": {"command": ["/bin/true"]}})),
        act(json!({"files": {"write": [{"path": "/etc/x", "text": ""}]}})),
        act(json!({"probe": {"command": ["/bin/true"]}})),
        act(json!({"service": {"name": "main", "action": "start"}})),
    ] {
        assert_eq!(case.cell.plan(work(&refused), case.env.id(), Vec::new()), ActPlan::Dead, "{refused:?}");
    }
    assert_eq!(case.does(&act(json!({"service": {"name": "main", "action": "stop"}}))), None);
    let found = case.cell.look();
    assert!(!found.present && found.death.is_some_and(|death| death.is_proved()));
}
