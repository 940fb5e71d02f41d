//! Actions in an existing cell: once per task, for that incarnation, and without blocking other work.

use std::time::{Duration, Instant};

use muster_agent_sim::{Driver, Effect, Faults, Journal, KillPoints, Odds, Surroundings};
use muster_ids::{AllocationId, CellId, TaskId};
use muster_wire::act::{CellTarget, Executor};
use muster_wire::cell::ServiceState;
use muster_wire::task::{Ending, Refusal, Report, Task, TaskKind};
use serde_json::json;

use crate::machine::{Machine, changed, created, in_cell, kill};
use crate::server::Server;

fn about(
    machine: &Machine,
    kind: TaskKind,
    allocation: AllocationId,
    cell: CellId,
    incarnation: i64,
) -> Task {
    machine.of_cell(kind, allocation, cell, incarnation)
}

/// A task that creates a cell with a running service and one that starts on request.
pub(crate) fn create(machine: &Machine, allocation: AllocationId, cell: CellId) -> Task {
    let mut task = about(machine, TaskKind::CellCreate, allocation, cell, 1);
    let spec = json!({
        "root": {"host": ["/usr"]},
        "services": [{"name": "main", "command": ["/x"]}, {"name": "later", "command": ["/x"], "start": "on_request"}],
    });
    let act = created(&mut task);
    (act.name, act.spec) = ("m-1".to_owned(), serde_json::from_value(spec).unwrap());
    task
}

/// An action in its first incarnation.
pub(crate) fn act(machine: &Machine, allocation: AllocationId, cell: CellId, act: &str) -> Task {
    let cell = CellTarget { executor: Executor::Cell, cell_id: cell, incarnation: 1 };
    in_cell(machine, allocation, cell, &serde_json::from_str(act).unwrap())
}

fn prepare(machine: &Machine, allocation: AllocationId) -> Task {
    machine.bare(TaskKind::Prepare, allocation, 1)
}

async fn reported(server: &Server, tasks: Vec<Task>) -> Vec<Report> {
    let (before, count) = (server.reports().len(), tasks.len());
    let asked: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    server.script(|state| state.work.push_back(tasks));
    server.until("all are reported", |state| state.reports.len() == before + count).await;
    // In the order of the tasks: a service starts in parallel to other work in its cell.
    let mut reports = server.reports().split_off(before);
    reports.sort_by_key(|report| asked.iter().position(|id| *id == report.task_id));
    reports
}

fn stdout(report: &Report) -> &str {
    &report.findings.ran.as_ref().unwrap().stdout
}

#[tokio::test]
async fn files_services_commands_and_checks_of_a_cell_and_what_is_remembered_of_them_after_a_crash() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    let of = |text: &str| act(&machine, a, cell, text);
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), create(&machine, a, cell)]).await;
    let append = of(r#"{"command": {"command": ["/bin/write", "/etc/a", "one"]}}"#);
    let tasks = vec![
        of(r#"{"files": {"write": [{"path": "/bin/cat", "text": "forged"}]}}"#),
        append.clone(),
        of(r#"{"command": {"command": ["/bin/cat", "/etc/a"]}}"#),
        of(r#"{"service": {"name": "later", "action": "start"}}"#),
        of(r#"{"files": {"remove": ["/etc/a"]}}"#),
    ];
    let done = reported(&server, tasks).await;
    assert!(done.iter().all(|report| report.ending == Ending::Done), "{done:?}");
    assert_eq!(stdout(&done[2]), "forged", "a command runs what the cell has");
    let states: Vec<ServiceState> =
        done[3].findings.cell.as_ref().unwrap().services.iter().map(|service| service.state).collect();
    assert_eq!(states, [ServiceState::Running, ServiceState::Running]);
    let probe = r#"{"probe": {"command": ["/bin/cat", "/etc/b"], "sees": ["/etc"]}}"#;
    let write = r#"{"files": {"write": [{"path": "/etc/b", "text": "true"}]}}"#;
    reported(&server, vec![of(write)]).await;
    assert_eq!(stdout(&reported(&server, vec![of(probe)]).await[0]), "true", "a check does not");
    // The same task again: the command is reported, not run again.
    kill(running).await;
    let running = machine.start();
    let again = reported(&server, vec![append]).await;
    assert_eq!(again[0].findings.ran, done[1].findings.ran);
    let looked =
        reported(&server, vec![of(r#"{"command": {"command": ["/bin/test", "-e", "/etc/a"]}}"#)]).await;
    assert_eq!(
        looked[0].findings.ran.as_ref().unwrap().exit,
        1,
        "it did not write anew what was removed since"
    );
    // Another incarnation is another cell, and a missing one is refused.
    let newer = changed(&of(write), "/act/cell/incarnation", 2);
    // A check with the data of another kind.
    let mut crossed = json!(of(write));
    crossed["act"]["kind"] = "cell_probe".into();
    let before = server.reports().len();
    server.script(|state| {
        state.strange = vec![crossed];
        state.work.push_back(Vec::new());
    });
    server.until("it is reported", |state| state.reports.len() > before).await;
    let refused = server.reports().split_off(before);
    assert_eq!(refused[0].ending, Ending::Failed);
    assert!(refused[0].message.as_deref().unwrap().contains("missing field `probe`"), "{refused:?}");
    let refused = reported(&server, vec![newer]).await;
    assert!(refused[0].message.as_deref().unwrap().contains("incarnation 1"), "{refused:?}");
    // The newer one is now known, and the older one stale.
    let refused = reported(&server, vec![of(write)]).await;
    assert!(refused[0].message.as_deref().unwrap().contains("stale incarnation"), "{refused:?}");
    kill(running).await;
}

/// Attack: a long command, in a cell that is to be destroyed.
#[tokio::test]
async fn a_long_command_holds_up_neither_a_check_nor_another_cell_nor_the_end_of_its_own() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let (one, two): (CellId, CellId) = (machine.env.id(), machine.env.id());
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), create(&machine, a, one), create(&machine, a, two)]).await;
    let began = Instant::now();
    let long = act(&machine, a, one, r#"{"command": {"command": ["/bin/sleep", "4"]}}"#);
    let behind = act(&machine, a, one, r#"{"command": {"command": ["/bin/true"]}}"#);
    server.script(|state| state.work.push_back(vec![long.clone(), behind.clone()]));
    let others = vec![
        act(&machine, a, one, r#"{"probe": {"command": ["/bin/true"]}}"#),
        act(&machine, a, two, r#"{"command": {"command": ["/bin/true"]}}"#),
        about(&machine, TaskKind::CellInspect, a, one, 1),
        about(&machine, TaskKind::CellDestroy, a, one, 1),
    ];
    let reports = reported(&server, others).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(reports.iter().all(|report| report.ending == Ending::Done), "{reports:?}");
    let told = |task: &Task| server.reports().into_iter().find(|report| report.task_id == task.id);
    assert!(told(&long).is_none() && told(&behind).is_none());
    server
        .until("both are told of", |state| {
            [&long, &behind].iter().all(|task| state.reports.iter().any(|report| report.task_id == task.id))
        })
        .await;
    assert!(
        [&long, &behind].iter().all(|task| told(task).unwrap().ending == Ending::Failed),
        "the cell is gone"
    );
    kill(running).await;
}

#[tokio::test]
async fn self_ended_service_is_observed_and_restarted_on_request() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), create(&machine, a, cell)]).await;
    kill(running).await;
    let journal = Journal::open(&machine.journal_path()).unwrap();
    let around = Surroundings {
        journal: Some(journal.into()),
        faults: Faults::new(Odds::default(), 1, "m").into(),
        kill: KillPoints::default().into(),
    };
    let driver =
        std::sync::Arc::new(Driver::open("m", &machine.agent_folder(), &machine.env, around).unwrap());
    let running = machine.start_with(driver.clone());
    assert!(!driver.end_services(cell, Some("later")).unwrap(), "it does not run");
    assert!(!driver.end_services(machine.env.id(), None).unwrap(), "there is no such cell");
    assert!(driver.end_services(cell, None).unwrap());
    let looked = reported(&server, vec![about(&machine, TaskKind::CellInspect, a, cell, 1)]).await;
    let main = &looked[0].findings.cell.as_ref().unwrap().services[0];
    assert_eq!((main.state, main.ready, main.exit), (ServiceState::Ended, false, Some(1)));
    let started = act(&machine, a, cell, r#"{"service": {"name": "main", "action": "start"}}"#);
    let main = reported(&server, vec![started]).await[0].findings.cell.clone().unwrap().services[0].clone();
    assert_eq!((main.state, main.ready), (ServiceState::Running, true));
    let effects: Vec<Effect> = machine.effects().into_iter().map(|(effect, _)| effect).collect();
    assert_eq!(effects[2..], [Effect::ServiceEnded, Effect::ServiceStarted]);
    kill(running).await;
}

#[tokio::test]
async fn a_secret_of_files_is_asked_for_and_nothing_is_written_without_it() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    let of = |text: &str| act(&machine, a, cell, text);
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), create(&machine, a, cell)]).await;
    let files = r#"{"files": {"write": [{"path": "/a", "text": "x"}], "secrets": [{"secret": "db", "file": "password"}]}}"#;
    let unreported = reported(&server, vec![of(files)]).await;
    assert_eq!(unreported[0].findings.refusal, Some(Refusal::Secret), "{unreported:?}");
    let test = r#"{"command": {"command": ["/bin/test", "-e", "/a"]}}"#;
    assert_eq!(reported(&server, vec![of(test)]).await[0].findings.ran.as_ref().unwrap().exit, 1);
    server.script(|state| drop(state.secrets.insert("password".to_owned(), "CANARY-acts".into())));
    let told = reported(&server, vec![of(files)]).await;
    assert_eq!(told[0].ending, Ending::Done, "{told:?}");
    let test = r#"{"command": {"command": ["/bin/test", "-e", "/run/muster/secrets/password"]}}"#;
    assert_eq!(reported(&server, vec![of(test)]).await[0].findings.ran.as_ref().unwrap().exit, 0);
    let kept = std::fs::read_to_string(machine.path().join("agent/sandboxes.json")).unwrap();
    assert!(kept.contains("secret password") && !kept.contains("CANARY-acts"), "{kept}");
    kill(running).await;
}
