use std::collections::VecDeque;
use std::time::Duration;

use muster_agent::AgentError;
use muster_agent_sim::Effect;
use muster_ids::AllocationId;
use muster_wire::task::{SandboxRef, TaskKind};

use crate::machine::{Machine, kill};
use crate::server::{Instead, Server};

#[tokio::test]
async fn stale_copies_are_destroyed_before_the_first_task_is_requested() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, b): (AllocationId, AllocationId) = (machine.env.id(), machine.env.id());
    let tasks = [a, b].map(|id| machine.bare(TaskKind::Prepare, id, 1));
    server.script(|state| state.work.push_back(tasks.to_vec()));
    let running = machine.start();
    server.until("both are prepared", |state| state.reports.len() == 2).await;
    kill(running).await;
    let before = server.count("poll");
    server.script(|state| {
        state.asked.clear();
        state.hellos.clear();
        state.stale_allocations = VecDeque::from([vec![SandboxRef { allocation_id: a, incarnation: 1 }]]);
    });
    assert!(before > 0);
    let running = machine.start();
    server.until("it polls again", |state| state.asked.contains(&"poll".to_owned())).await;
    {
        let state = server.state.lock();
        assert_eq!(state.asked[..3], ["hello", "hello", "poll"]);
        assert_eq!(state.hellos[0].sandboxes.len(), 2);
        assert_eq!(state.hellos[1].sandboxes, [SandboxRef { allocation_id: b, incarnation: 1 }]);
    }
    assert_eq!(machine.effects().last(), Some(&(Effect::Destroyed, 1)));
    assert_eq!(machine.journal().last().unwrap().task_id, None);
    kill(running).await;
}

#[tokio::test]
async fn ended_session_is_replaced_by_a_new_one() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    server.script(|state| {
        state.instead.insert("poll", VecDeque::from([Instead::Refuse(409, "session 1 is over")]));
    });
    let running = machine.start();
    server.until("a second hello", |state| state.session == 2).await;
    server.until("a poll", |state| state.asked.last().is_some_and(|asked| asked == "poll")).await;
    kill(running).await;
}

#[tokio::test]
async fn a_lost_answer_to_a_poll_leads_to_a_new_session() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    server.script(|state| {
        state.instead.insert("poll", VecDeque::from([Instead::BreakOff]));
    });
    let running = machine.start();
    server.until("a second hello", |state| state.session == 2).await;
    kill(running).await;
}

#[tokio::test]
async fn a_node_that_was_retired_stops_with_a_sentence_and_a_code_of_its_own() {
    for request in ["hello", "poll"] {
        let server = Server::start().await;
        let machine = Machine::joined(&server).await;
        server.script(|state| {
            state.instead.insert(request, VecDeque::from([Instead::Refuse(401, "the node is retired")]));
        });
        let ended = machine.start().await.unwrap().unwrap_err();
        assert!(matches!(ended, AgentError::Retired(_)), "{ended:?}");
        assert!(ended.to_string().contains("the node is retired"), "{ended}");
        assert_eq!(ended.exit_code(), 3);
    }
}

#[tokio::test]
async fn a_certificate_is_renewed_and_used() {
    let server = Server::start().await;
    server.script(|state| state.lifetime = 3);
    let machine = Machine::joined(&server).await;
    let before = std::fs::read_to_string(machine.agent_folder().path().join("certificate.pem")).unwrap();
    server.script(|state| state.lifetime = 3600);
    let running = machine.start();
    server.until("it was renewed", |state| state.renewals == 1).await;
    let polls = server.count("poll");
    server
        .until("it polls on", |state| state.asked.iter().filter(|asked| *asked == "poll").count() > polls + 1)
        .await;
    let after = std::fs::read_to_string(machine.agent_folder().path().join("certificate.pem")).unwrap();
    assert_ne!(before, after);
    assert_eq!(server.count("hello"), 1, "a new certificate is no new session");
    kill(running).await;
}

#[tokio::test]
async fn a_certificate_that_has_ended_is_no_identity() {
    let server = Server::start().await;
    server.script(|state| state.lifetime = 1);
    let machine = Machine::joined(&server).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let ended = machine.start().await.unwrap().unwrap_err();
    assert!(matches!(ended, AgentError::CertificateEnded(_)), "{ended:?}");
    assert_eq!((ended.exit_code(), server.count("hello")), (3, 0));
}

#[tokio::test]
async fn told_to_stop_it_finishes_what_runs_and_reports_it() {
    let server = Server::start().await;
    let mut machine = Machine::joined(&server).await;
    machine.odds.latency = (Duration::from_millis(300), Duration::from_millis(300));
    let (a, b): (AllocationId, AllocationId) = (machine.env.id(), machine.env.id());
    let other = machine.bare(TaskKind::Prepare, b, 1);
    let tasks = vec![machine.task(TaskKind::Prepare, a, 1), machine.task(TaskKind::Inspect, a, 1), other];
    server.script(|state| state.work.push_back(tasks));
    let running = machine.start();
    server.until("work was taken", |state| state.work.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    machine.stop.send_replace(true);
    running.await.unwrap().unwrap();
    let state = server.state.lock();
    assert_eq!(state.reports.len(), 2, "what had begun, and not what only waited: {:?}", state.reports);
}

#[tokio::test]
async fn through_a_partition_nothing_gets_and_afterwards_everything_is_told() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let running = machine.start();
    server.until("it polls", |state| state.asked.contains(&"poll".to_owned())).await;
    let mut phase = machine.phase.subscribe();
    phase.wait_for(|phase| *phase == muster_agent::Phase::Polling).await.unwrap();
    let task = machine.task(TaskKind::Prepare, machine.env.id(), 1);
    server.script(|state| state.work.push_back(vec![task.clone()]));
    server.until("work was taken", |state| state.work.is_empty()).await;
    machine.cut.send_replace(true);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = server.state.lock().asked.len();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.state.lock().asked.len(), asked, "nothing came through");
    machine.cut.send_replace(false);
    // The server delivers the task again if the response was lost.
    server.script(|state| state.work.push_back(vec![task.clone()]));
    server.until("it was told", |state| state.reports.iter().any(|report| report.task_id == task.id)).await;
    assert_eq!(machine.effects(), [(Effect::Prepared, 1)]);
    kill(running).await;
}
