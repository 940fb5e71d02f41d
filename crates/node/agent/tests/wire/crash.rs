use std::time::Duration;

use muster_agent_sim::Effect;
use muster_ids::AllocationId;
use muster_wire::task::{Ending, SandboxRef, TaskKind};

use crate::machine::{Machine, kill};
use crate::server::Server;

#[tokio::test]
async fn after_kill_9_the_places_are_there_and_nothing_is_made_twice() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let task = machine.task(TaskKind::Prepare, a, 1);
    server.script(|state| state.work.push_back(vec![task.clone()]));
    let running = machine.start();
    server.until("it is reported", |state| state.reports.len() == 1).await;
    kill(running).await;
    // The server crashed before it stored the report, and delivers the task again.
    server.script(|state| {
        state.hellos.clear();
        state.work.push_back(vec![task.clone()]);
    });
    let running = machine.start();
    server.until("it is reported again", |state| state.reports.len() == 2).await;
    let reports = server.reports();
    assert_eq!(server.state.lock().hellos[0].sandboxes, [SandboxRef { allocation_id: a, incarnation: 1 }]);
    let [first, second] = &reports[..] else { panic!("two reports") };
    assert_eq!((first.ending, &first.findings), (second.ending, &second.findings));
    assert_eq!(first.ending, Ending::Done);
    assert_eq!(machine.effects(), [(Effect::Prepared, 1)]);
    kill(running).await;
}

#[tokio::test]
async fn killed_while_a_task_waits_it_has_done_nothing() {
    let server = Server::start().await;
    let mut machine = Machine::joined(&server).await;
    machine.odds.latency = (Duration::from_secs(60), Duration::from_secs(60));
    let task = machine.task(TaskKind::Prepare, machine.env.id(), 1);
    server.script(|state| state.work.push_back(vec![task]));
    let running = machine.start();
    server.until("work was taken", |state| state.work.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    kill(running).await;
    assert!(machine.effects().is_empty());
}

#[tokio::test]
async fn an_effect_that_a_crash_kept_from_the_journal_is_added_at_the_next_start() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let tasks = vec![machine.task(TaskKind::Prepare, a, 1), machine.task(TaskKind::Destroy, a, 1)];
    server.script(|state| state.work.push_back(tasks));
    let running = machine.start();
    server.until("both are reported", |state| state.reports.len() == 2).await;
    kill(running).await;
    // As if the process had ended right before it wrote the last line.
    let text = std::fs::read_to_string(machine.journal_path()).unwrap();
    let first = text.lines().next().unwrap();
    std::fs::write(machine.journal_path(), format!("{first}\n")).unwrap();
    for _ in 0..2 {
        let running = machine.start();
        let hellos = server.count("hello");
        server
            .until("it says hello", |state| {
                state.asked.iter().filter(|asked| *asked == "hello").count() > hellos
            })
            .await;
        kill(running).await;
        assert_eq!(machine.effects(), [(Effect::Prepared, 1), (Effect::Destroyed, 1)]);
    }
}
