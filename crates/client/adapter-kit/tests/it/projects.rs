//! Tokens: the operator's own, or minted by the publisher for every consumer.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::person::{Person, done, start, start_with};
use crate::platform::{Entitled, Fault, Platform};

const PUBLISHER: [&str; 2] = ["operator_token.mint", "entitlement.list"];

fn entitle(platform: &Platform, id: &str, app: &str, project: &str) {
    let held = Entitled { id: id.to_owned(), app: app.to_owned(), project: project.to_owned() };
    platform.world().entitled.push(held);
}

/// Returns the tokens with which an endpoint was called.
fn used(platform: &Platform, operation: &str) -> BTreeSet<String> {
    let world = platform.world();
    world.calls.iter().filter(|call| call.operation == operation).map(|call| call.token.clone()).collect()
}

fn willing() -> Person {
    Person::new(|_| Box::pin(async { done() }))
}

#[tokio::test]
async fn a_publisher_works_in_every_project_that_is_entitled_also_those_that_come_later() {
    let platform = Platform::start().await;
    platform.account("mst_sat_publisher", "publisher", "prj_publisher", &PUBLISHER);
    entitle(&platform, "ent_1", "fake", "prj_a");
    entitle(&platform, "ent_other", "other", "prj_other");
    let first = platform.ask_in("prj_a", "join", Some("unit-1"));
    let others = platform.ask_in("prj_other", "join", Some("unit-1"));
    let running = start_with(&platform, willing(), "mst_sat_publisher", |options| {
        options.apps = vec!["fake".to_owned()]
    });
    platform.until(&first, "done").await;
    entitle(&platform, "ent_2", "fake", "prj_b");
    let second = platform.ask_in("prj_b", "join", Some("unit-1"));
    platform.until(&second, "done").await;
    assert_eq!(platform.step(&others).state.to_string(), "queued", "another adapter's app");
    assert_eq!(platform.count("operator_token_mint"), 2);
    assert!(used(&platform, "adapter_step_lease").iter().all(|token| token.starts_with("mst_opt_")));
    running.end().await;
}

#[tokio::test]
async fn a_minted_token_is_renewed_before_it_ends() {
    let platform = Platform::start().await;
    platform.account("mst_sat_publisher", "publisher", "prj_publisher", &PUBLISHER);
    platform.world().token_life = Duration::from_secs(2);
    entitle(&platform, "ent_1", "fake", "prj_a");
    let running = start_with(&platform, willing(), "mst_sat_publisher", |_| {});
    platform.so("three tokens were minted", |world| world.made >= 3).await;
    let step = platform.ask_in("prj_a", "join", Some("unit-1"));
    platform.until(&step, "done").await;
    let used = used(&platform, "adapter_step_lease");
    assert!(used.len() >= 2, "the loop takes the new one up: {used:?}");
    running.end().await;
}

#[tokio::test]
async fn a_step_outlives_the_token_under_which_it_was_leased() {
    let platform = Platform::start().await;
    platform.account("mst_sat_publisher", "publisher", "prj_publisher", &PUBLISHER);
    platform.world().token_life = Duration::from_secs(1);
    entitle(&platform, "ent_1", "fake", "prj_a");
    let step = platform.ask_in("prj_a", "join", Some("unit-1"));
    let slow = Person::new(|cx| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            cx.write_files(cx.member()?, vec![muster_adapter_kit::file("/x", "y")]).await?;
            done()
        })
    });
    let running = start_with(&platform, slow, "mst_sat_publisher", |_| {});
    assert_eq!(platform.until(&step, "done").await.generation, 1);
    running.end().await;
}

#[tokio::test]
async fn heartbeats_go_on_with_the_old_token_while_a_new_one_does_not_come() {
    let platform = Platform::start().await;
    platform.account("mst_sat_publisher", "publisher", "prj_publisher", &PUBLISHER);
    platform.world().token_life = Duration::from_secs(8);
    entitle(&platform, "ent_1", "fake", "prj_a");
    let step = platform.ask_in("prj_a", "join", Some("unit-1"));
    let endless = Person::new(|_| Box::pin(std::future::pending()));
    let running = start_with(&platform, endless, "mst_sat_publisher", |_| {});
    platform.until(&step, "leased").await;
    platform.fault("operator_token_mint", Fault::Hang);
    let minted = |world: &crate::platform::World| {
        world.calls.iter().filter(|call| call.operation == "operator_token_mint").count()
    };
    platform.so("another token is asked for", |world| minted(world) == 2).await;
    let before = platform.count("adapter_step_heartbeat");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(platform.count("adapter_step_heartbeat") > before, "they wait for the token");
    running.kill().await;
}

#[tokio::test]
async fn a_consumer_for_whom_no_token_is_given_is_not_asked_about_at_every_look() {
    let platform = Platform::start().await;
    platform.account("mst_sat_publisher", "publisher", "prj_publisher", &PUBLISHER);
    entitle(&platform, "ent_1", "fake", "prj_a");
    platform.fault("operator_token_mint", Fault::Refuse(409, "invalid_state"));
    let running = start_with(&platform, willing(), "mst_sat_publisher", |options| {
        options.look_around = Duration::from_millis(100);
    });
    platform
        .so("it looked around several times", |world| {
            world.calls.iter().filter(|call| call.operation == "entitlement_list").count() >= 6
        })
        .await;
    assert_eq!(platform.count("operator_token_mint"), 1);
    let step = platform.ask_in("prj_a", "join", Some("unit-1"));
    platform.until(&step, "done").await;
    assert_eq!(platform.count("operator_token_mint"), 2, "but it is not forgotten");
    running.end().await;
}

#[tokio::test]
async fn a_consumer_that_is_gone_is_left() {
    let platform = Platform::start().await;
    platform.account("mst_sat_publisher", "publisher", "prj_publisher", &PUBLISHER);
    entitle(&platform, "ent_1", "fake", "prj_a");
    let running = start_with(&platform, willing(), "mst_sat_publisher", |options| {
        options.wait = Duration::from_secs(1)
    });
    platform
        .so("it works there", |world| world.calls.iter().any(|call| call.operation == "adapter_step_lease"))
        .await;
    platform.world().entitled.clear();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let before = platform.count("adapter_step_lease");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(platform.count("adapter_step_lease"), before);
    running.end().await;
}

#[tokio::test]
async fn a_token_file_is_read_again_when_its_token_is_refused() {
    let platform = Platform::start().await;
    let running = start(&platform, willing());
    let first = platform.ask("join", Some("unit-1"));
    platform.until(&first, "done").await;
    platform.account("mst_sat_rotated", "operator", crate::platform::PROJECT, &crate::platform::OPERATES);
    std::fs::write(&running.token_file, "mst_sat_rotated").unwrap();
    platform.world().tokens.remove("mst_sat_operator");
    let second = platform.ask("join", Some("unit-1"));
    platform.until(&second, "done").await;
    running.end().await;
}

#[tokio::test]
async fn an_account_that_can_do_nothing_is_told_what_it_lacks() {
    let platform = Platform::start().await;
    platform.account("mst_sat_poor", "poor", "prj_x", &["event.list"]);
    let running = start_with(&platform, willing(), "mst_sat_poor", |_| {});
    let error = running.end.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("adapter_step.lease") && error.contains("poor"), "{error}");
}

#[tokio::test]
async fn a_platform_that_is_not_there_yet_is_waited_for_and_one_that_says_no_is_not() {
    let platform = Platform::start().await;
    platform.world().down = true;
    let running = start(&platform, willing());
    tokio::time::sleep(Duration::from_millis(500)).await;
    platform.world().down = false;
    let step = platform.ask("join", Some("unit-1"));
    platform.until(&step, "done").await;
    running.end().await;
    let refused = start_with(&platform, willing(), "mst_sat_unknown", |_| {});
    let error = refused.end.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("unauthenticated"), "{error}");
}
