//! A real process that ends itself at each point, and is started again.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use muster_agent::sim::{Effect, KILL_POINTS};
use muster_ids::AllocationId;
use muster_node_api::task::{Ending, TaskKind};
use tokio::process::{Child, Command};

use crate::machine::Machine;
use crate::server::Server;

const FOLDER: &str = "MUSTER_TEST_AGENT_FOLDER";
const KILL_AT: &str = "MUSTER_AGENT_KILL_AT";
const PULLS: &str = "MUSTER_TEST_AGENT_PULLS";

/// Not a test of its own: the process that the test below starts, which is this program again.
#[tokio::test]
async fn the_agent_in_a_process_of_its_own() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let mut machine = Machine::at(Path::new(&folder));
    machine.kill_at = std::env::var(KILL_AT).unwrap_or_default();
    machine.pulls = std::env::var_os(PULLS).is_some();
    machine.start().await.unwrap().unwrap();
}

fn start(machine: &Machine, kill_at: &str) -> Child {
    command(machine, kill_at).spawn().unwrap()
}

/// One that fetches images.
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

#[tokio::test]
async fn killed_at_any_point_and_started_again_it_does_everything_once() {
    for point in KILL_POINTS {
        let server = Server::start().await;
        let machine = Machine::joined(&server).await;
        let a: AllocationId = machine.world.id();
        let kinds = [
            TaskKind::Prepare,
            TaskKind::Inspect,
            TaskKind::Resize,
            TaskKind::Survey,
            TaskKind::Destroy,
            TaskKind::Wipe,
        ];
        let mut tasks: Vec<_> = kinds.iter().map(|kind| machine.task(*kind, a, 1)).collect();
        tasks[2].details.amount.cpus = 2;
        server.script(|state| state.redeliver = tasks.clone());

        let mut doomed = start(&machine, point);
        let ended = tokio::time::timeout(Duration::from_secs(20), doomed.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("nothing came to {point}")).unwrap();
        assert!(!ended.success(), "{point}: {ended}");

        let mut second = start(&machine, "");
        server
            .until(point, |state| {
                tasks.iter().all(|task| state.reports.iter().any(|report| report.task_id == task.id))
            })
            .await;
        second.kill().await.unwrap();
        let reports = server.reports();
        assert!(reports.iter().all(|report| report.ending == Ending::Done), "{point}: {:?}", reports);
        let effects = [Effect::Prepared, Effect::Resized, Effect::Destroyed, Effect::Wiped];
        assert_eq!(machine.effects(), effects.map(|effect| (effect, 1)), "{point}");
    }
}
