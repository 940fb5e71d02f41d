//! Repeated steps: successful actions are not repeated, failed ones are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_adapter_kit::types::AdapterTaskState;
use muster_adapter_kit::{Failure, StepCx, command, file};

use crate::person::{Person, done, start};
use crate::platform::{Fault, Platform};

fn effects(platform: &Platform, program: &str) -> usize {
    let world = platform.world();
    world.done.iter().filter(|(_, act)| act["command"]["command"][0] == program).count()
}

async fn register(cx: &StepCx) -> Result<i32, Failure> {
    Ok(cx.run(cx.member()?, command(["/bin/register", "unit-1"])).await?.exit)
}

#[tokio::test]
async fn effect_before_a_crash_is_returned_to_the_successor_without_repetition() {
    let platform = Platform::start().await;
    platform.world().exits.insert("/bin/register".to_owned(), vec![]);
    let step = platform.ask("join", Some("unit-1"));
    let first = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                register(cx).await?;
                std::future::pending().await
            })
        }),
    );
    platform.so("it had its effect", |world| !world.done.is_empty()).await;
    first.kill().await;
    platform.lapse(&step);
    let second = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                assert_eq!(register(cx).await?, 0);
                done()
            })
        }),
    );
    let ended = platform.until(&step, "done").await;
    assert_eq!((ended.generation, ended.attempts), (2, 2));
    assert_eq!(effects(&platform, "/bin/register"), 1, "the effect was had once");
    second.end().await;
}

#[tokio::test]
async fn a_command_that_did_not_work_is_run_anew_under_the_next_lease() {
    let platform = Platform::start().await;
    platform.world().exits.insert("/bin/register".to_owned(), vec![3, 3]);
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                match register(cx).await? {
                    0 => done(),
                    exit => Err(Failure::retry(Duration::from_secs(1), "not_yet", format!("it said {exit}"))),
                }
            })
        }),
    );
    let ended = platform.until(&step, "done").await;
    assert_eq!(ended.generation, 3);
    assert_eq!(effects(&platform, "/bin/register"), 3, "twice in vain, and once that worked");
    running.end().await;
}

#[tokio::test]
async fn inspection_is_never_answered_from_an_earlier_lease() {
    let platform = Platform::start().await;
    let flag = |says: &str| {
        let mut world = platform.world();
        world.cells.entry("mem_unit-1".to_owned()).or_default().insert("/flag".to_owned(), says.to_owned());
    };
    flag("busy");
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                let seen = cx.look(cx.member()?, command(["/bin/cat", "/flag"])).await?;
                match seen.stdout.as_str() {
                    "idle" => done(),
                    _ => Err(Failure::retry(Duration::from_secs(1), "not_yet", "it is busy")),
                }
            })
        }),
    );
    platform.so("it failed once", |world| world.steps[0].reason.is_some()).await;
    flag("idle");
    assert_eq!(platform.until(&step, "done").await.generation, 2);
    running.end().await;
}

#[tokio::test]
async fn the_same_deed_twice_in_one_run_is_two_deeds() {
    let platform = Platform::start().await;
    platform.world().exits.insert("/bin/register".to_owned(), vec![]);
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                register(cx).await?;
                register(cx).await?;
                done()
            })
        }),
    );
    platform.until(&step, "done").await;
    assert_eq!(effects(&platform, "/bin/register"), 2);
    let keys: Vec<String> = platform.world().tasks.iter().map(|task| task.task.key.clone()).collect();
    assert!(keys[0].ends_with("-1") && keys[1].ends_with("-2"), "{keys:?}");
    running.end().await;
}

#[tokio::test]
async fn lost_answers_and_a_platform_that_stumbles_change_nothing() {
    let platform = Platform::start().await;
    platform.world().exits.insert("/bin/register".to_owned(), vec![]);
    let step = platform.ask("join", Some("unit-1"));
    platform.fault("adapter_step_lease", Fault::Refuse(503, "unavailable"));
    platform.fault("adapter_task_create", Fault::LoseAnswer);
    platform.fault("adapter_task_create", Fault::Refuse(500, "internal"));
    platform.fault("adapter_step_progress", Fault::Refuse(503, "unavailable"));
    platform.fault("adapter_step_complete", Fault::Refuse(503, "unavailable"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                cx.progress(10, "on the way").await;
                register(cx).await?;
                done()
            })
        }),
    );
    platform.until(&step, "done").await;
    assert_eq!(effects(&platform, "/bin/register"), 1);
    assert_eq!(platform.step(&step).generation, 1);
    running.end().await;
}

#[tokio::test]
async fn a_completion_whose_answer_was_lost_is_no_trouble() {
    let platform = Platform::start().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let step = platform.ask("join", Some("unit-1"));
    platform.fault("adapter_step_complete", Fault::LoseAnswer);
    let running = start(
        &platform,
        Person::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { done() })
        }),
    );
    platform.until(&step, "done").await;
    let next = platform.ask("remove", Some("unit-1"));
    platform.until(&next, "done").await;
    assert_eq!(runs.load(Ordering::SeqCst), 2, "once for each step");
    running.end().await;
}

#[tokio::test]
async fn a_task_that_surely_failed_fails_the_step_with_the_nodes_words() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                cx.write_files(cx.member()?, vec![file("no-slash", "")]).await?;
                done()
            })
        }),
    );
    let ended = platform.until(&step, "failed").await;
    assert_eq!(ended.reason.as_deref(), Some("task_failed"));
    assert!(ended.message.unwrap().contains("no-slash is no path"));
    running.end().await;
}

#[tokio::test]
async fn slow_task_is_awaited_and_an_unanswered_one_is_requested_again() {
    let platform = Platform::start().await;
    platform.world().nodes_sleep = true;
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                cx.write_files(cx.member()?, vec![file("/x", "y")]).await?;
                done()
            })
        }),
    );
    platform
        .so("it asked how it stands", |world| {
            world.calls.iter().filter(|call| call.operation == "adapter_task_get").count() > 1
        })
        .await;
    assert_eq!(platform.step(&step).state.to_string(), "leased");
    {
        let mut world = platform.world();
        world.tasks[0].task.state = AdapterTaskState::Expired;
        world.nodes_sleep = false;
    }
    platform.so("it failed for now", |world| world.steps[0].reason.as_deref() == Some("task_expired")).await;
    let ended = platform.until(&step, "done").await;
    assert_eq!(ended.generation, 2);
    assert_eq!(platform.file("unit-1", "/x").as_deref(), Some("y"), "the next lease asked for it anew");
    running.end().await;
}

#[tokio::test]
async fn a_method_that_panics_fails_its_step_and_the_loop_goes_on() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                assert!(cx.verb().to_string() != "join", "a fault of the author's");
                done()
            })
        }),
    );
    let ended = platform.until(&step, "failed").await;
    assert_eq!(ended.reason.as_deref(), Some("adapter_panicked"));
    assert!(ended.message.unwrap().contains("a fault of the author's"));
    let next = platform.ask("leave", Some("unit-1"));
    platform.until(&next, "done").await;
    running.end().await;
}

#[tokio::test]
async fn a_report_that_the_platform_does_not_take_fails_the_step_instead_of_coming_again_for_ever() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    platform.fault("adapter_step_complete", Fault::Refuse(400, "invalid_request"));
    let running = start(&platform, Person::new(|_| Box::pin(async { done() })));
    assert_eq!(platform.until(&step, "failed").await.reason.as_deref(), Some("report_refused"));
    running.end().await;
}

#[tokio::test]
async fn unimplemented_verbs_fail_as_unsupported_and_reconcile_succeeds() {
    let platform = Platform::start().await;
    let (drain, look, newer) = (
        platform.ask("drain", Some("unit-1")),
        platform.ask("reconcile", None),
        platform.ask("levitate", Some("unit-1")),
    );
    let running = start(&platform, Person::new(|_| Box::pin(async { done() })));
    assert_eq!(platform.until(&drain, "failed").await.reason.as_deref(), Some("unsupported"));
    platform.until(&look, "done").await;
    let ended = platform.until(&newer, "failed").await;
    assert!(ended.message.unwrap().contains("does not support"), "a verb of a later platform");
    running.end().await;
}

#[tokio::test]
async fn a_task_in_a_dead_cell_fails_with_a_reason_that_the_adapter_can_tell() {
    let platform = Platform::start().await;
    platform.world().dead_cells.push("mem_unit-1".to_owned());
    let step = platform.ask("remove", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                let why = cx.remove_files(cx.member()?, ["/etc/x"]).await.unwrap_err();
                assert!(why.is_cell_dead() && why.retry_after.is_none(), "{why:?}");
                done()
            })
        }),
    );
    platform.until(&step, "done").await;
    running.end().await;
}

#[tokio::test]
async fn a_refusal_beside_a_members_step_is_told_and_what_only_reads_says_so() {
    let platform = Platform::start().await;
    platform.world().exits.insert("/bin/mend".to_owned(), vec![]);
    platform
        .world()
        .faults
        .push(("adapter_task_create".to_owned(), Fault::Refuse(409, "member_step_running")));
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                let member = cx.member()?;
                let why = cx.run(member, command(["/bin/mend"])).await.unwrap_err();
                assert!(why.is_member_step_running(), "{why:?}");
                cx.look(member, command(["/bin/true"])).await?;
                cx.beside_member_steps().run(member, command(["/bin/mend"])).await?;
                done()
            })
        }),
    );
    platform.until(&step, "done").await;
    let effects: Vec<String> = {
        let world = platform.world();
        let asked = world.calls.iter().filter(|call| call.operation == "adapter_task_create");
        asked.filter_map(|call| call.body["effect"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(effects, ["changes", "reads", "concurrent"]);
    running.end().await;
}
