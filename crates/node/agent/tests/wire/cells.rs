//! Cells: created and destroyed in order, fenced by incarnations of their own, and never without their allocation.

use std::collections::VecDeque;

use muster_agent_sim::Effect;
use muster_ids::{AllocationId, CellId};
use muster_wire::cell::{CellRef, DesiredState, ProjectPeople};
use muster_wire::task::{Ending, Report, SandboxRef, Task, TaskKind};

use crate::machine::{Machine, kill};
use crate::server::Server;

/// A task about a cell, in the first incarnation of its allocation.
fn task(machine: &Machine, kind: TaskKind, allocation: AllocationId, cell: CellId, incarnation: i64) -> Task {
    machine.of_cell(kind, allocation, cell, incarnation)
}

fn prepare(machine: &Machine, allocation: AllocationId) -> Task {
    machine.bare(TaskKind::Prepare, allocation, 1)
}

/// Delivers these tasks, and waits for all reports.
async fn reported(server: &Server, tasks: Vec<Task>) -> Vec<Report> {
    let (before, count) = (server.reports().len(), tasks.len());
    server.script(|state| state.work.push_back(tasks));
    server.until("all are reported", |state| state.reports.len() == before + count).await;
    server.reports().split_off(before)
}

fn endings(reports: &[Report]) -> Vec<Ending> {
    reports.iter().map(|report| report.ending).collect()
}

fn stale(report: &Report) -> bool {
    report.ending == Ending::Failed && report.message.as_deref().unwrap().contains("stale incarnation")
}

#[tokio::test]
async fn a_cell_is_created_inspected_and_destroyed() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    let of = |kind, incarnation| task(&machine, kind, a, cell, incarnation);
    let running = machine.start();
    let early = reported(&server, vec![of(TaskKind::CellCreate, 1)]).await;
    assert_eq!(endings(&early), [Ending::Failed], "a cell is nowhere without its allocation's place");
    let tasks = vec![
        prepare(&machine, a),
        of(TaskKind::CellCreate, 2),
        of(TaskKind::CellCreate, 2),
        of(TaskKind::CellInspect, 2),
        of(TaskKind::CellCreate, 3),
        of(TaskKind::CellDestroy, 2),
        of(TaskKind::CellInspect, 2),
        of(TaskKind::CellCreate, 3),
        of(TaskKind::CellInspect, 3),
    ];
    let reports = reported(&server, tasks).await;
    let seen = |at: usize| reports[at].findings.cell.clone().unwrap();
    assert_eq!((seen(3).present, seen(3).incarnation), (true, 2));
    assert_eq!(reports[4].ending, Ending::Failed, "the one before is still there");
    assert!(!seen(6).present);
    assert_eq!((seen(8).present, seen(8).incarnation), (true, 3));
    let effects: Vec<Effect> = machine.effects().into_iter().map(|(effect, _)| effect).collect();
    let wanted = [Effect::Prepared, Effect::CellCreated, Effect::CellDestroyed, Effect::CellCreated];
    assert_eq!(effects, wanted);
    assert!(machine.journal()[1..].iter().all(|line| line.cell_id == Some(cell)));
    kill(running).await;
}

/// Attack: a delayed or replayed task must not bring back a cell that the platform has given up.
#[tokio::test]
async fn a_late_cell_create_does_not_bring_back_what_was_destroyed() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    let of = |kind| task(&machine, kind, a, cell, 1);
    let running = machine.start();
    let tasks = vec![prepare(&machine, a), of(TaskKind::CellDestroy), of(TaskKind::CellCreate)];
    let reports = reported(&server, tasks).await;
    assert_eq!(endings(&reports[..2]), [Ending::Done; 2]);
    assert!(stale(&reports[2]), "{:?}", reports[2]);
    kill(running).await;
    // Nor after a crash.
    let running = machine.start();
    let reports = reported(&server, vec![of(TaskKind::CellCreate)]).await;
    assert!(stale(&reports[0]), "{:?}", reports[0]);
    let effects: Vec<Effect> = machine.effects().into_iter().map(|(effect, _)| effect).collect();
    assert_eq!(effects, [Effect::Prepared, Effect::RefusedStale, Effect::RefusedStale]);
    kill(running).await;
}

#[tokio::test]
async fn task_of_an_older_incarnation_of_cell_or_allocation_is_refused() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    let running = machine.start();
    let made = vec![prepare(&machine, a), task(&machine, TaskKind::CellCreate, a, cell, 5)];
    assert_eq!(endings(&reported(&server, made).await), [Ending::Done; 2]);
    let kinds = [TaskKind::CellCreate, TaskKind::CellInspect, TaskKind::CellDestroy];
    let old = kinds.map(|kind| task(&machine, kind, a, cell, 4)).to_vec();
    let of_old_place = kinds.map(|kind| Task { incarnation: 0, ..task(&machine, kind, a, cell, 5) }).to_vec();
    for tasks in [old, of_old_place] {
        let reports = reported(&server, tasks).await;
        assert!(reports.iter().all(stale), "{reports:?}");
    }
    let still = reported(&server, vec![task(&machine, TaskKind::CellInspect, a, cell, 5)]).await;
    assert!(still[0].findings.cell.as_ref().unwrap().present);
    kill(running).await;
}

/// Attack: a task that names one allocation and the cell of another.
#[tokio::test]
async fn a_cell_is_not_touched_through_another_allocation() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, b): (AllocationId, AllocationId) = (machine.env.id(), machine.env.id());
    let cell: CellId = machine.env.id();
    let running = machine.start();
    let made = vec![prepare(&machine, a), task(&machine, TaskKind::CellCreate, a, cell, 1)];
    reported(&server, made).await;
    reported(&server, vec![prepare(&machine, b), task(&machine, TaskKind::CellDestroy, b, cell, 1)]).await;
    let looked = reported(&server, vec![task(&machine, TaskKind::CellInspect, b, cell, 1)]).await;
    assert!(!looked[0].findings.cell.as_ref().unwrap().present, "nothing is seen through it");
    let looked = reported(&server, vec![task(&machine, TaskKind::CellInspect, a, cell, 1)]).await;
    assert!(looked[0].findings.cell.as_ref().unwrap().present);
    kill(running).await;
}

#[tokio::test]
async fn cells_that_must_not_be_there_are_destroyed_before_the_first_task_is_asked_for() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let (one, two): (CellId, CellId) = (machine.env.id(), machine.env.id());
    let running = machine.start();
    let create = |cell| task(&machine, TaskKind::CellCreate, a, cell, 1);
    reported(&server, vec![prepare(&machine, a), create(one), create(two)]).await;
    kill(running).await;
    let stale_copy = CellRef { allocation_id: a, cell_id: one, incarnation: 1 };
    server.script(|state| {
        state.asked.clear();
        state.hellos.clear();
        state.stale_cells = VecDeque::from([vec![stale_copy.clone()]]);
    });
    let running = machine.start();
    server.until("it polls again", |state| state.asked.contains(&"poll".to_owned())).await;
    {
        let state = server.state.lock();
        // The status of its cells may be reported before the first poll.
        let asked: Vec<&str> =
            state.asked.iter().map(String::as_str).filter(|word| *word != "observe").collect();
        assert_eq!(asked[..3], ["hello", "hello", "poll"]);
        assert_eq!(state.hellos[0].cells.len(), 2);
        let left = CellRef { cell_id: two, ..stale_copy };
        assert_eq!(state.hellos[1].cells, [left]);
        assert_eq!(state.hellos[1].sandboxes, [SandboxRef { allocation_id: a, incarnation: 1 }]);
    }
    // The sandbox is unaffected, and the stale copy does not come back.
    let reports =
        reported(&server, vec![create(one), task(&machine, TaskKind::CellInspect, a, two, 1)]).await;
    assert!(stale(&reports[0]), "{:?}", reports[0]);
    assert!(reports[1].findings.cell.as_ref().unwrap().present);
    kill(running).await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_holds_up_no_task() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let keys = vec!["k".repeat(1 << 20); 20];
    let project_id = machine.env.id();
    let people = vec![ProjectPeople { project_id, keys, people: Vec::new(), allocations: Vec::new() }];
    let too_long = DesiredState { revision: 4, people, ..DesiredState::default() };
    let work = task(&machine, TaskKind::CellInspect, machine.env.id(), machine.env.id(), 1);
    server.script(|state| {
        // Like the real server: tasks in the lost response are delivered again after the next hello.
        state.redeliver = vec![work.clone()];
        state.work.push_back(vec![work.clone()]);
        state.desired.extend([too_long.clone(), too_long]);
    });
    let running = machine.start();
    server.until("the task was done", |state| !state.reports.is_empty()).await;
    assert_eq!(server.state.lock().hellos.len(), 2, "one hello after the answer that was too long");
    kill(running).await;
}

#[tokio::test]
async fn poll_reports_the_observed_revision_and_zero_after_a_restart() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    server.script(|state| {
        state.desired.extend([4, 9].map(|revision| DesiredState { revision, ..DesiredState::default() }));
    });
    let running = machine.start();
    server.until("both were followed", |state| state.revisions.len() >= 3).await;
    assert_eq!(server.state.lock().revisions[..3], [0, 4, 9]);
    kill(running).await;
    server.script(|state| state.revisions.clear());
    let running = machine.start();
    server.until("it polls again", |state| !state.revisions.is_empty()).await;
    assert_eq!(server.state.lock().revisions[0], 0);
    kill(running).await;
}

#[tokio::test]
async fn a_desired_state_in_pages_is_followed_when_its_last_page_came() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let page = |revision, next: Option<&str>| DesiredState {
        revision,
        next: next.map(str::to_owned),
        ..DesiredState::default()
    };
    server.script(|state| {
        state.desired.extend([page(4, Some("a")), page(5, Some("b")), page(6, None), page(6, None)]);
    });
    let running = machine.start();
    server.until("all were polled for", |state| state.revisions.len() >= 5).await;
    {
        let state = server.state.lock();
        // The revision is that of the first page: a change meanwhile is sent again.
        assert_eq!(state.revisions[..5], [0, 0, 0, 4, 6]);
        assert_eq!(state.pages[..5], [None, Some("a".to_owned()), Some("b".to_owned()), None, None]);
    }
    kill(running).await;
}
