//! Stopping: no new step is started, running ones finish if they can, and the rest is released.

use std::time::{Duration, Instant};

use crate::person::{Person, done, start, start_with};
use crate::platform::Platform;

#[tokio::test]
async fn a_step_that_can_end_in_the_grace_does() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let running = start_with(
        &platform,
        Person::new(|_| {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                done()
            })
        }),
        "mst_sat_operator",
        |options| options.grace = Duration::from_secs(5),
    );
    platform.until(&step, "leased").await;
    let later = platform.ask("join", Some("unit-2"));
    let since = Instant::now();
    running.end().await;
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(platform.step(&step).state.to_string(), "done");
    // It may have arrived in the poll that the stop cancelled; then it was never started.
    assert_ne!(platform.step(&later).state.to_string(), "failed");
}

#[tokio::test]
async fn a_step_that_cannot_is_handed_back_and_another_process_takes_it() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let first = start(&platform, Person::new(|_| Box::pin(std::future::pending())));
    platform.until(&step, "leased").await;
    first.end().await;
    let back = platform.step(&step);
    assert_eq!(
        (back.state.to_string().as_str(), back.reason.as_deref()),
        ("queued", Some("adapter_stopping"))
    );
    let second = start(&platform, Person::new(|_| Box::pin(async { done() })));
    assert_eq!(platform.until(&step, "done").await.generation, 2);
    second.end().await;
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
