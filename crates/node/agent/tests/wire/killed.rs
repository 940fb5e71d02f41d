//! A real process that ends itself at each crash point, and is restarted.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use muster_agent::real::{self, Settings};
use muster_agent_sim::{Effect, KILL_POINTS, KillPoints};
use muster_ids::AllocationId;
use muster_wire::task::{Ending, TaskKind};
use tokio::process::{Child, Command};

use crate::acts::{act, create};
use crate::machine::{Machine, changed};
use crate::real::settings_of;
use crate::server::{Server, State};

const FOLDER: &str = "MUSTER_TEST_AGENT_FOLDER";
const KILL_AT: &str = "MUSTER_AGENT_KILL_AT";
const PULLS: &str = "MUSTER_TEST_AGENT_PULLS";
const REAL: &str = "MUSTER_TEST_AGENT_REAL";

/// Not a test of its own: the process that the test below starts, which is this program again.
#[tokio::test]
async fn the_agent_in_a_process_of_its_own() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let mut machine = Machine::at(Path::new(&folder));
    machine.kill_at = std::env::var(KILL_AT).unwrap_or_default();
    machine.pulls = std::env::var_os(PULLS).is_some();
    let running = match std::env::var(REAL) {
        Ok(number) => {
            let kill = KillPoints::parse(&machine.kill_at).unwrap();
            let settings =
                Settings { crash: Arc::new(kill).hook(), ..settings_of(&machine, number.parse().unwrap()) };
            let driver = real::Driver::open(settings, &machine.env).unwrap();
            machine.start_with(Arc::new(driver))
        }
        Err(_) => machine.start(),
    };
    running.await.unwrap().unwrap();
}

fn start(machine: &Machine, kill_at: &str) -> Child {
    command(machine, kill_at).spawn().unwrap()
}

/// Starts an agent with real cells, under the number of the calling process.
pub(crate) fn start_real(machine: &Machine, kill_at: &str) -> Child {
    command(machine, kill_at).env(REAL, std::process::id().to_string()).spawn().unwrap()
}

/// Starts an agent that pulls images.
pub(crate) fn start_pulling(machine: &Machine, kill_at: &str) -> Child {
    command(machine, kill_at).env(PULLS, "1").spawn().unwrap()
}

fn command(machine: &Machine, kill_at: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "killed::the_agent_in_a_process_of_its_own"])
        .env(FOLDER, machine.path())
        .env(KILL_AT, kill_at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

const FILES: &str = r#"{"files": {"write": [{"path": "/a", "text": "text"}]}}"#;
const SERVICE: &str = r#"{"service": {"name": "main", "action": "restart"}}"#;
const COMMAND: &str = r#"{"command": {"command": ["/bin/cat", "/a"]}}"#;
const PROBE: &str = r#"{"probe": {"command": ["/bin/cat", "/a"], "sees": ["/"]}}"#;

#[tokio::test]
async fn killed_at_any_point_and_started_again_it_does_everything_once() {
    for point in KILL_POINTS {
        let server = Server::start().await;
        let machine = Machine::joined(&server).await;
        let a: AllocationId = machine.env.id();
        let of = |kind| machine.task(kind, a, 1);
        let resize = changed(&of(TaskKind::Resize), "/act/resources/amount/cpus", 2);
        let cell = machine.env.id();
        let made = vec![
            of(TaskKind::Prepare),
            of(TaskKind::Inspect),
            resize,
            of(TaskKind::Survey),
            create(&machine, a, cell),
        ];
        let acts = [FILES, SERVICE, COMMAND, PROBE].map(|text| act(&machine, a, cell, text));
        let ended = vec![of(TaskKind::Destroy), of(TaskKind::Wipe)];

        // Actions in a cell have a queue of their own, so they are delivered while the cell exists.
        let (mut agent, mut killed) = (start(&machine, point), false);
        for tasks in [made, acts[..3].to_vec(), acts[3..].to_vec(), ended] {
            server.script(|state| {
                state.redeliver = tasks.clone();
                state.work.push_back(tasks.clone());
            });
            let told = |state: &State| {
                tasks.iter().all(|task| state.reports.iter().any(|report| report.task_id == task.id))
            };
            tokio::select! {
                () = server.until(point, told) => {}
                ended = agent.wait() => {
                    assert!(!ended.unwrap().success() && !killed, "{point}");
                    killed = true;
                    agent = start(&machine, "");
                    server.until(point, told).await;
                }
            }
        }
        assert!(killed, "nothing came to {point}");
        agent.kill().await.unwrap();
        let reports = server.reports();
        assert!(reports.iter().all(|report| report.ending == Ending::Done), "{point}: {:?}", reports);
        for (task, stdout) in [(&acts[2], "text"), (&acts[3], "text")] {
            let told = reports.iter().filter(|report| report.task_id == task.id);
            for ran in told.map(|report| report.findings.ran.clone().unwrap()) {
                assert_eq!((ran.exit, ran.stdout.as_str()), (0, stdout), "{point}");
            }
        }
        let effects = [
            Effect::Prepared,
            Effect::Resized,
            Effect::CellCreated,
            Effect::FilesWritten,
            Effect::ServiceRestarted,
            Effect::CommandRan,
            Effect::Destroyed,
            Effect::Wiped,
        ];
        assert_eq!(machine.effects(), effects.map(|effect| (effect, 1)), "{point}");
    }
}
