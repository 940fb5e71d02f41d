//! Stopping: no new step is started, running ones finish if they can, and the rest is released.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::person::{Person, done, start, start_with};
use crate::platform::{Fault, Platform};

#[tokio::test]
async fn a_step_that_can_end_in_the_grace_does() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let started = Arc::new(Notify::new());
    let starts = started.clone();
    let running = start_with(
        &platform,
        Person::new(move |_| {
            starts.notify_one();
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                done()
            })
        }),
        "mst_sat_operator",
        |options| options.grace = Duration::from_secs(5),
    );
    started.notified().await;
    let later = platform.ask("join", Some("unit-2"));
    let since = Instant::now();
    running.end().await;
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(platform.step(&step).state.to_string(), "done");
    // It may have arrived in the last poll, which ended by the stop; then it was handed back.
    assert_eq!(platform.step(&later).state.to_string(), "queued");
}

#[tokio::test]
async fn a_step_that_cannot_is_handed_back_and_another_process_takes_it() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let started = Arc::new(Notify::new());
    let starts = started.clone();
    let first = start(
        &platform,
        Person::new(move |_| {
            starts.notify_one();
            Box::pin(std::future::pending())
        }),
    );
    started.notified().await;
    first.end().await;
    assert_handed_back(&platform, &step);
    let second = start(&platform, Person::new(|_| Box::pin(async { done() })));
    assert_eq!(platform.until(&step, "done").await.generation, 2);
    second.end().await;
}

#[tokio::test]
async fn a_step_whose_lease_arrives_during_the_stop_is_handed_back_unstarted() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    platform.fault("adapter_step_lease", Fault::DelayAnswer(Duration::from_millis(100)));
    let adapter = start(&platform, Person::new(|_| Box::pin(async { unreachable!("it stops") })));
    platform.until(&step, "leased").await;
    adapter.end().await;
    assert_handed_back(&platform, &step);
}

fn assert_handed_back(platform: &Platform, step: &str) {
    let back = platform.step(step);
    assert_eq!(
        (back.state.to_string().as_str(), back.reason.as_deref()),
        ("queued", Some("adapter_stopping"))
    );
}

#[tokio::test]
async fn an_adapter_that_waits_for_work_stops_at_once() {
    let platform = Platform::start().await;
    let running =
        start_with(&platform, Person::new(|_| Box::pin(async { done() })), "mst_sat_operator", |options| {
            options.wait = Duration::from_secs(30)
        });
    platform
        .so("it waits", |world| world.calls.iter().any(|call| call.operation == "adapter_step_lease"))
        .await;
    let since = Instant::now();
    running.end().await;
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
}
