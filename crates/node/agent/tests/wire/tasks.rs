use std::collections::VecDeque;
use std::time::Duration;

use muster_agent_sim::Effect;
use muster_ids::AllocationId;
use muster_wire::task::{Ending, Refusal, TaskKind};

use crate::machine::{Machine, changed, kill};
use crate::server::{Instead, Server};

#[tokio::test]
async fn a_life_of_a_place_from_prepare_to_wipe() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let kinds = [
        TaskKind::Prepare,
        TaskKind::Inspect,
        TaskKind::Resize,
        TaskKind::Destroy,
        TaskKind::Inspect,
        TaskKind::Wipe,
        TaskKind::Inspect,
    ];
    let mut tasks: Vec<_> = kinds.iter().map(|kind| machine.task(*kind, a, 1)).collect();
    tasks[2] = changed(&tasks[2], "/act/resources/amount/cpus", 2);
    let survey = machine.task(TaskKind::Survey, a, 0);
    let ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
    server.script(|state| state.work.push_back(tasks));
    let running = machine.start();
    server.until("all are reported", |state| state.reports.len() == ids.len()).await;
    {
        let reports = server.reports();
        let told: Vec<_> = reports.iter().map(|report| report.task_id).collect();
        assert_eq!(told, ids, "in their order");
        assert!(reports.iter().all(|report| report.ending == Ending::Done && report.generation == 7));
        let found: Vec<_> = reports.iter().map(|report| &report.findings).collect();
        assert!(found[1].present && found[1].incarnation == 1 && found[1].devices.len() == 1);
        assert_eq!(found[2].amount.cpus, 2);
        assert!(!found[4].present);
        assert_eq!(found[4].residue, ["GPU-simulated-m-0", "disk"]);
        assert!(found[6].residue.is_empty());
    }
    let effects = [Effect::Prepared, Effect::Resized, Effect::Destroyed, Effect::Wiped];
    assert_eq!(machine.effects(), effects.map(|effect| (effect, 1)));
    server.script(|state| state.work.push_back(vec![survey.clone()]));
    server.until("the survey", |state| state.reports.iter().any(|report| report.task_id == survey.id)).await;
    kill(running).await;
}

#[tokio::test]
async fn task_of_an_older_incarnation_is_refused_and_recorded() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let first = vec![machine.task(TaskKind::Prepare, a, 2), machine.task(TaskKind::Prepare, a, 3)];
    server.script(|state| state.work.push_back(first));
    let running = machine.start();
    server.until("both are reported", |state| state.reports.len() == 2).await;
    {
        let reports = server.reports();
        assert_eq!(reports[0].ending, Ending::Done);
        assert_eq!(reports[1].ending, Ending::Failed, "an older place is still there");
    }
    kill(running).await;
    let kinds = [TaskKind::Destroy, TaskKind::Prepare, TaskKind::Wipe, TaskKind::Inspect, TaskKind::Resize];
    let stale: Vec<_> = kinds.iter().map(|kind| machine.task(*kind, a, 1)).collect();
    server.script(|state| state.work.push_back(stale));
    let running = machine.start();
    server.until("all are reported", |state| state.reports.len() == 7).await;
    let reports = server.reports();
    for report in &reports[2..] {
        assert_eq!(report.ending, Ending::Failed);
        assert!(report.message.as_deref().unwrap().contains("stale incarnation"), "{report:?}");
    }
    let refused = machine.effects().iter().filter(|(effect, _)| *effect == Effect::RefusedStale).count();
    assert_eq!(refused, kinds.len());
    kill(running).await;
}

#[tokio::test]
async fn a_late_prepare_does_not_bring_back_what_was_destroyed() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let tasks = vec![machine.task(TaskKind::Destroy, a, 1), machine.task(TaskKind::Prepare, a, 1)];
    server.script(|state| state.work.push_back(tasks));
    let running = machine.start();
    server.until("both are reported", |state| state.reports.len() == 2).await;
    let endings: Vec<_> = server.state.lock().reports.iter().map(|report| report.ending).collect();
    assert_eq!(endings, [Ending::Done, Ending::Failed]);
    assert_eq!(machine.effects(), [(Effect::RefusedStale, 1)]);
    kill(running).await;
}

#[tokio::test]
async fn a_device_that_was_not_wiped_is_not_given_to_another() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, b): (AllocationId, AllocationId) = (machine.env.id(), machine.env.id());
    let tasks = vec![machine.task(TaskKind::Prepare, a, 1), machine.task(TaskKind::Destroy, a, 1)];
    server.script(|state| state.work.push_back(tasks));
    let running = machine.start();
    server.until("both are reported", |state| state.reports.len() == 2).await;
    let leak = machine.task(TaskKind::Prepare, b, 1);
    server.script(|state| state.work.push_back(vec![leak]));
    server.until("the third is reported", |state| state.reports.len() == 3).await;
    let last = server.state.lock().reports[2].clone();
    assert_eq!(last.ending, Ending::Failed);
    assert!(last.message.unwrap().contains("violation"));
    assert_eq!(machine.effects().last(), Some(&(Effect::Violation, 1)));
    kill(running).await;
}

#[tokio::test]
async fn a_report_is_kept_until_the_server_took_it() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let task = machine.task(TaskKind::Prepare, machine.env.id(), 1);
    server.script(|state| {
        state.instead.insert(
            "report",
            VecDeque::from([
                Instead::BreakOff,
                Instead::Refuse(503, "not now"),
                Instead::Refuse(409, "another session"),
            ]),
        );
        state.work.push_back(vec![task.clone()]);
    });
    let running = machine.start();
    server
        .until("it was told four times", |state| {
            state.asked.iter().filter(|asked| *asked == "report").count() == 4
        })
        .await;
    let reports = server.reports();
    // Received twice: the first response was lost.
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(|report| report.task_id == task.id));
    assert_eq!(server.count("hello"), 2, "the refusal of the session led to another hello");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.count("report"), 4, "what was taken is not told again");
    kill(running).await;
}

#[tokio::test]
async fn refused_report_is_dropped_and_the_others_are_delivered() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let tasks: Vec<_> = (0..2).map(|_| machine.task(TaskKind::Inspect, machine.env.id(), 1)).collect();
    server.script(|state| {
        state.refused = vec![tasks[0].id];
        // The first report is rejected, with both in it or one.
        let unread = [Instead::Refuse(400, "what is this")];
        state.instead.insert("report", VecDeque::from(unread));
        state.work.push_back(tasks.clone());
    });
    let running = machine.start();
    server.until("the rest is told", |state| !state.reports.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(server.count("report") <= 4);
    assert!(server.state.lock().reports.len() <= 2);
    kill(running).await;
}

#[tokio::test]
async fn tasks_of_one_allocation_go_in_order_and_those_of_others_beside_them() {
    let server = Server::start().await;
    let mut machine = Machine::joined(&server).await;
    let latency = Duration::from_millis(150);
    machine.odds.latency = (latency, latency);
    let allocations: [AllocationId; 8] = std::array::from_fn(|_| machine.env.id());
    let mut tasks = Vec::new();
    for kind in [TaskKind::Prepare, TaskKind::Inspect, TaskKind::Destroy] {
        for a in allocations {
            tasks.push(machine.bare(kind, a, 1));
        }
    }
    server.script(|state| state.work.push_back(tasks.clone()));
    let began = std::time::Instant::now();
    let running = machine.start();
    server.until("all are reported", |state| state.reports.len() == 24).await;
    assert!(began.elapsed() < latency * 12, "eight at once: {:?}", began.elapsed());
    let reports = server.reports();
    for a in allocations {
        let of_a = |task: &&muster_wire::task::Task| task.act.allocation().unwrap().allocation_id == a;
        let asked: Vec<_> = tasks.iter().filter(of_a).map(|task| task.id).collect();
        let told: Vec<_> =
            reports.iter().map(|report| report.task_id).filter(|id| asked.contains(id)).collect();
        assert_eq!(told, asked);
    }
    assert!(reports.iter().all(|report| report.ending == Ending::Done));
    kill(running).await;
}

#[tokio::test]
async fn task_expired_in_transit_is_neither_started_nor_reported() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let mut expired = machine.task(TaskKind::Prepare, a, 1);
    expired.expires_at = machine.env.now();
    server.script(|state| state.work.push_back(vec![expired, machine.task(TaskKind::Inspect, a, 1)]));
    let running = machine.start();
    server.until("the other is reported", |state| state.reports.len() == 1).await;
    assert!(!server.reports()[0].findings.present);
    assert!(machine.effects().is_empty());
    kill(running).await;
}

#[tokio::test]
async fn completed_task_stays_done_when_repeated_under_faults() {
    let server = Server::start().await;
    let mut machine = Machine::joined(&server).await;
    let task = machine.task(TaskKind::Prepare, machine.env.id(), 1);
    server.script(|state| state.work.push_back(vec![task.clone()]));
    let running = machine.start();
    server.until("it is reported", |state| state.reports.len() == 1).await;
    kill(running).await;
    machine.odds.fail = 1.0;
    let survey = machine.task(TaskKind::Survey, machine.env.id(), 0);
    server.script(|state| state.work.push_back(vec![task.clone(), survey]));
    let running = machine.start();
    server.until("both are reported", |state| state.reports.len() == 3).await;
    let again: Vec<_> =
        server.reports()[1..].iter().map(|report| (report.task_id == task.id, report.ending)).collect();
    assert!(again.contains(&(true, Ending::Done)) && again.contains(&(false, Ending::Failed)), "{again:?}");
    kill(running).await;
}

#[tokio::test]
async fn silently_failed_wipe_is_detected_by_inspection() {
    let server = Server::start().await;
    let mut machine = Machine::joined(&server).await;
    machine.odds.wipe_fail = 1.0;
    let a: AllocationId = machine.env.id();
    let kinds = [TaskKind::Prepare, TaskKind::Destroy, TaskKind::Wipe, TaskKind::Inspect];
    let tasks = kinds.iter().map(|kind| machine.task(*kind, a, 1)).collect();
    server.script(|state| state.work.push_back(tasks));
    let running = machine.start();
    server.until("all are reported", |state| state.reports.len() == 4).await;
    let reports = server.reports();
    assert!(reports.iter().all(|report| report.ending == Ending::Done));
    assert!(!reports[3].findings.residue.is_empty());
    assert!(machine.effects().iter().all(|(effect, _)| *effect != Effect::Wiped));
    kill(running).await;
}

#[tokio::test]
async fn a_task_of_a_kind_that_only_newer_agents_know_fails_and_holds_up_no_other() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let known = machine.task(TaskKind::Inspect, machine.env.id(), 1);
    let mut strange = serde_json::json!(machine.task(TaskKind::Inspect, machine.env.id(), 1));
    strange["act"]["kind"] = "levitate".into();
    server.script(|state| {
        state.strange = vec![strange.clone(), serde_json::json!({"what": "is this"})];
        state.work.push_back(vec![known.clone()]);
    });
    let running = machine.start();
    server.until("both are reported", |state| state.reports.len() == 2).await;
    let reports = server.reports();
    let strange = reports.iter().find(|report| report.task_id != known.id).unwrap();
    assert_eq!(strange.ending, Ending::Failed);
    assert!(strange.message.as_deref().unwrap().contains("levitate"), "{strange:?}");
    assert_eq!(server.count("hello"), 1);
    kill(running).await;
}

/// Tasks of a newer server, or of a faulty one: each is refused with the name of what this agent does not know or lacks.
#[tokio::test]
async fn a_task_with_a_reserved_executor_or_without_a_field_is_refused_by_name() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let known = machine.task(TaskKind::Inspect, machine.env.id(), 1);
    let cell = || machine.of_cell(TaskKind::CellDestroy, machine.env.id(), machine.env.id(), 1);
    let (mut reserved, mut lacking) = (serde_json::json!(cell()), serde_json::json!(cell()));
    reserved["act"]["cell"]["executor"] = "vm".into();
    lacking["act"].as_object_mut().unwrap().remove("cell");
    server.script(|state| {
        state.strange = vec![reserved.clone(), lacking.clone()];
        state.work.push_back(vec![known.clone()]);
    });
    let running = machine.start();
    server.until("all are reported", |state| state.reports.len() == 3).await;
    let reports = server.reports();
    for (task, why) in
        [(reserved, "unknown variant `vm`, expected `cell`"), (lacking, "missing field `cell`")]
    {
        let of = |report: &&muster_wire::task::Report| serde_json::json!(report.task_id) == task["id"];
        let report = reports.iter().find(of).unwrap();
        assert_eq!((report.ending, report.incarnation), (Ending::Failed, 1), "{report:?}");
        let message = report.message.as_deref().unwrap();
        assert!(message.contains("does not support the task") && message.contains(why), "{message}");
        assert_eq!(report.findings.refusal, Some(Refusal::Unsupported), "a retry cannot help");
    }
    assert!(machine.effects().is_empty());
    kill(running).await;
}
