//! Leases: kept while the work lasts, and dropped immediately when lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_adapter_kit::{Done, Failure, file};
use serde_json::json;

use crate::person::{Person, done, start, start_with};
use crate::platform::{Fault, PROJECT, Platform};

#[tokio::test]
async fn a_step_is_leased_carried_out_and_completed() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                let member = cx.member()?;
                assert_eq!((member.name.as_str(), cx.snapshot().instance.as_str()), ("unit-1", "demo"));
                let hub = cx.members_of("hub").next().unwrap();
                cx.progress(40, "half way").await;
                cx.write_files(hub, vec![file("/etc/x", "hello")]).await?;
                Ok(Done::saying("taken in"))
            })
        }),
    );
    let ended = platform.until(&step, "done").await;
    assert_eq!((ended.message.as_deref(), ended.percent), (Some("taken in"), Some(40)));
    assert_eq!((ended.generation, ended.holder.as_deref()), (1, Some("person-1")));
    assert_eq!(platform.file("hub-1", "/etc/x").as_deref(), Some("hello"));
    let lease = platform
        .world()
        .calls
        .iter()
        .find(|call| call.operation == "adapter_step_lease")
        .unwrap()
        .body
        .clone();
    assert_eq!(lease["adapter"], json!({"name": "person-1", "version": "1.2.3", "contract": 1}));
    let said = platform
        .world()
        .calls
        .iter()
        .find(|call| call.operation == "adapter_step_progress")
        .unwrap()
        .body
        .clone();
    assert_eq!(said["lease_seconds"], lease["lease_seconds"], "a word keeps the lease as a heartbeat does");
    running.end().await;
}

#[tokio::test]
async fn a_step_longer_than_its_lease_is_kept_by_heartbeats() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let running = start(
        &platform,
        Person::new(|_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(6500)).await;
                done()
            })
        }),
    );
    let ended = platform.until(&step, "done").await;
    assert_eq!(ended.generation, 1, "nobody else ever had it");
    assert!(platform.count("adapter_step_heartbeat") >= 3);
    running.end().await;
}

#[tokio::test]
async fn a_heartbeat_that_gets_no_answer_does_not_cost_the_lease() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    platform.fault("adapter_step_heartbeat", Fault::Hang);
    platform.fault("adapter_step_heartbeat", Fault::Hang);
    let running = start(
        &platform,
        Person::new(|_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(6500)).await;
                done()
            })
        }),
    );
    assert_eq!(platform.until(&step, "done").await.generation, 1, "nobody else ever had it");
    running.end().await;
}

#[tokio::test]
async fn a_failure_that_is_refused_is_told_without_what_may_be_wrong_with_it() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    platform.fault("adapter_step_fail", Fault::Refuse(400, "invalid_request"));
    let running = start(
        &platform,
        Person::new(|_| {
            Box::pin(async {
                let mut failure = Failure::retry(Duration::from_secs(1), "no_license", "Buy one.");
                failure.detail.insert("x".to_owned(), json!("y"));
                Err(failure)
            })
        }),
    );
    let ended = platform.until(&step, "failed").await;
    assert_eq!(ended.reason.as_deref(), Some("report_refused"));
    assert!(ended.message.unwrap().contains("invalid_request"));
    running.end().await;
    let world = platform.world();
    let last = world.calls.iter().rfind(|call| call.operation == "adapter_step_fail").unwrap();
    assert_eq!((last.body.get("adapter_detail"), last.body.get("retry_after_seconds")), (None, None));
}

/// Sets a flag when it is dropped.
struct Dropped(Arc<AtomicBool>);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn step_leased_by_another_is_abandoned_during_a_wait() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let (dropped, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (flag, end) = (dropped.clone(), over.clone());
    let running = start(
        &platform,
        Person::new(move |_| {
            let (guard, end) = (Dropped(flag.clone()), end.clone());
            Box::pin(async move {
                let _guard = guard;
                tokio::time::sleep(Duration::from_secs(20)).await;
                end.store(true, Ordering::SeqCst);
                done()
            })
        }),
    );
    platform.until(&step, "leased").await;
    platform.steal(&step);
    let since = Instant::now();
    platform.so("it is dropped", |_| dropped.load(Ordering::SeqCst)).await;
    assert!(since.elapsed() < Duration::from_secs(2), "the next heartbeat tells it: {:?}", since.elapsed());
    assert!(!over.load(Ordering::SeqCst));
    let now = platform.step(&step);
    assert_eq!((now.state.to_string().as_str(), now.generation), ("leased", 2), "nothing was said of it");
    running.end().await;
}

#[tokio::test]
async fn a_fenced_task_gives_the_step_up_at_once_and_has_no_effect() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let (dropped, went_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (flag, on, thief, stolen) = (dropped.clone(), went_on.clone(), platform.clone(), step.clone());
    let running = start(
        &platform,
        Person::new(move |cx| {
            let (guard, on, thief, stolen) =
                (Dropped(flag.clone()), on.clone(), thief.clone(), stolen.clone());
            Box::pin(async move {
                let _guard = guard;
                thief.steal(&stolen);
                // Ignoring failures must not let the method continue either.
                let _ = cx.write_files(cx.member()?, vec![file("/stale", "boo")]).await;
                on.store(true, Ordering::SeqCst);
                done()
            })
        }),
    );
    platform.so("it asked", |world| world.steps[0].generation == 2).await;
    let since = Instant::now();
    platform.so("it is dropped", |_| dropped.load(Ordering::SeqCst)).await;
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    running.end().await;
    assert!(!went_on.load(Ordering::SeqCst), "what a stale copy asks for never comes back to it");
    assert_eq!(platform.file("unit-1", "/stale"), None);
    assert_eq!(platform.count("adapter_step_fail") + platform.count("adapter_step_complete"), 0);
}

#[tokio::test]
async fn without_a_platform_a_lease_is_not_believed_in_beyond_its_time() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = dropped.clone();
    let running = start(
        &platform,
        Person::new(move |_| {
            let guard = Dropped(flag.clone());
            Box::pin(async move {
                let _guard = guard;
                std::future::pending().await
            })
        }),
    );
    platform.until(&step, "leased").await;
    platform.world().down = true;
    let since = Instant::now();
    platform.so("it is dropped", |_| dropped.load(Ordering::SeqCst)).await;
    assert!(
        since.elapsed() >= Duration::from_secs(3),
        "heartbeats that fail are tried again: {:?}",
        since.elapsed()
    );
    assert!(since.elapsed() < Duration::from_secs(7), "{:?}", since.elapsed());
    platform.world().down = false;
    running.kill().await;
}

#[tokio::test]
async fn a_task_that_is_refused_for_its_own_sake_fails_the_step_and_not_the_lease() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    platform.fault("adapter_task_create", Fault::Refuse(409, "invalid_state"));
    let running = start(
        &platform,
        Person::new(|cx| {
            Box::pin(async move {
                cx.write_files(cx.member()?, vec![file("/x", "")]).await?;
                done()
            })
        }),
    );
    let ended = platform.until(&step, "failed").await;
    assert_eq!(ended.reason.as_deref(), Some("task_refused"));
    assert!(ended.message.unwrap().contains("invalid_state"));
    running.end().await;
}

#[tokio::test]
async fn many_steps_are_carried_out_at_once_and_never_more_than_the_most() {
    let platform = Platform::start().await;
    let steps: Vec<String> = (0..60).map(|_| platform.ask("join", Some("unit-1"))).collect();
    let (now, top) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counter, highest) = (now.clone(), top.clone());
    let running = start_with(
        &platform,
        Person::new(move |_| {
            let (counter, highest) = (counter.clone(), highest.clone());
            Box::pin(async move {
                highest.fetch_max(counter.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(200)).await;
                counter.fetch_sub(1, Ordering::SeqCst);
                done()
            })
        }),
        "mst_sat_operator",
        |options| options.most = 20,
    );
    let since = Instant::now();
    for step in &steps {
        platform.until(step, "done").await;
    }
    assert_eq!(top.load(Ordering::SeqCst), 20);
    assert!(since.elapsed() < Duration::from_secs(6), "{:?}", since.elapsed());
    assert!(platform.world().steps.iter().all(|step| *step.project_id == PROJECT && step.generation == 1));
    running.end().await;
}
