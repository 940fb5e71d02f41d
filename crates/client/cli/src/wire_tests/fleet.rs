//! Commands that start operations, and their nodes.

use serde_json::{Value, json};

use super::scripted::{Reply, Request, ok, problem};
use super::{Context, Desk, Exit, command};
use crate::node::samples::{enrolling, node};
use crate::operation::samples::operation;
use crate::operation::screen::Screen;
use crate::operation::watch::follow;

const CREATE: &str = "muster allocation create train-1 --gpus 2 --project acme.train";

fn started(state: &str) -> Reply {
    ok(&json!({"operation": operation(state), "plan": {"kind": "allocation.create", "steps": []}})
        .to_string())
}

fn shows(state: &str) -> Reply {
    ok(&operation(state).to_string())
}

fn body(request: &Request) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

#[tokio::test]
async fn create_without_wait_does_not_poll_its_operation() {
    let desk = Desk::new(vec![started("accepted")]);
    desk.type_in(CREATE).await.unwrap();
    assert_eq!(desk.lines(), ["POST /v1/projects/acme.train/allocations"]);
    assert_eq!(body(&desk.server.requests()[0]), json!({"name": "train-1", "gpus": 2}));
}

#[tokio::test]
async fn a_wait_asks_until_the_end_and_ends_well_if_that_did() {
    let desk = Desk::new(vec![started("accepted"), shows("running"), shows("running"), shows("succeeded")]);
    desk.type_in(&format!("{CREATE} --wait")).await.unwrap();
    let asked = "GET /v1/operations/op_1?wait_seconds=1";
    assert_eq!(desk.lines(), ["POST /v1/projects/acme.train/allocations", asked, asked, asked]);
}

#[tokio::test]
async fn a_wait_comes_later_when_it_is_asked_to() {
    let later = || match problem(429, "rate_limited") {
        Reply::Answer(status, mut headers, body) => {
            headers.push(("retry-after", "2".to_owned()));
            Reply::Answer(status, headers, body)
        }
        other => other,
    };
    let desk = Desk::new(vec![started("accepted"), shows("running"), later(), later(), shows("succeeded")]);
    let since = std::time::Instant::now();
    desk.type_in(&format!("{CREATE} --wait")).await.unwrap();
    assert!(since.elapsed() >= std::time::Duration::from_secs(4), "{:?}", since.elapsed());
    // But not longer than the timeout.
    let desk = Desk::new(vec![started("accepted"), later()]);
    let failure = desk.type_in(&format!("{CREATE} --wait --timeout 1s")).await.unwrap_err();
    assert_eq!(failure.exit, Exit::WaitTimedOut);
}

#[tokio::test]
async fn the_exit_code_of_a_wait_says_how_it_ended() {
    for (state, exit) in [
        ("cancelled", Exit::OperationCancelled),
        ("blocked", Exit::OperationBlocked),
        ("partial", Exit::OperationPartial),
    ] {
        for form in ["table", "json", "name"] {
            let desk = Desk::new(vec![started("accepted"), shows(state)]);
            let failure = desk.type_in(&format!("{CREATE} --wait -o {form}")).await.unwrap_err();
            assert_eq!(failure.exit, exit, "{state} {form}");
        }
    }
}

#[tokio::test]
async fn a_failure_ends_with_the_advice_of_the_allocation() {
    let advised = ok(r#"{"id":"alc_1","state":"failed","advice":"ask again"}"#);
    let desk = Desk::new(vec![started("accepted"), shows("failed"), advised]);
    let failure = desk.type_in(&format!("{CREATE} --wait")).await.unwrap_err();
    assert_eq!((failure.exit, failure.next.as_deref()), (Exit::OperationFailed, Some("ask again")));
    assert_eq!(desk.lines()[2], "GET /v1/projects/prj_1/allocations/alc_1");

    let desk = Desk::new(vec![started("accepted"), shows("failed"), problem(403, "permission_denied")]);
    let failure = desk.type_in(&format!("{CREATE} --wait")).await.unwrap_err();
    assert_eq!(
        (failure.exit, failure.next),
        (Exit::OperationFailed, None),
        "what cannot be seen is left out"
    );
}

#[tokio::test]
async fn watching_a_superseded_operation_leads_to_its_successor() {
    let page = ok(r#"{"items":[{"id":"op_0"},{"id":"op_2","supersedes":"op_1"}]}"#);
    let desk = Desk::new(vec![shows("superseded"), page]);
    let failure = desk.type_in("muster operation watch op_1").await.unwrap_err();
    assert_eq!(failure.exit, Exit::OperationSuperseded);
    assert_eq!(failure.next.as_deref(), Some("muster operation watch op_2"));
    assert_eq!(
        desk.lines(),
        ["GET /v1/operations/op_1?wait_seconds=0", "GET /v1/operations?subject=alc_1&project=prj_1"]
    );
}

#[tokio::test]
async fn a_wait_has_an_end_of_its_own_and_the_operation_goes_on() {
    let desk = Desk::new(vec![started("accepted"), shows("running")]);
    let failure = desk.type_in(&format!("{CREATE} --wait --timeout 0s")).await.unwrap_err();
    assert_eq!((failure.exit, failure.code.as_str()), (Exit::WaitTimedOut, "wait_timed_out"));
    assert!(failure.detail.contains("is still running"), "{}", failure.detail);
    assert!(failure.next.unwrap().ends_with("muster operation watch op_1"));
}

#[tokio::test]
async fn a_wait_outlives_a_server_that_is_away_for_a_moment() {
    let away = problem(408, "request_timeout");
    let desk = Desk::new(vec![started("accepted"), away, shows("succeeded")]);
    desk.type_in(&format!("{CREATE} --wait")).await.unwrap();
    assert_eq!(desk.lines().len(), 3);

    let desk = Desk::new(vec![started("accepted"), problem(401, "unauthenticated")]);
    let failure = desk.type_in(&format!("{CREATE} --wait")).await.unwrap_err();
    assert_eq!(failure.exit, Exit::Unauthenticated, "what will not change by itself ends the wait");
    assert!(failure.next.unwrap().contains("muster operation watch op_1"));
}

#[tokio::test]
async fn without_a_terminal_each_change_is_a_line() {
    let desk = Desk::new(vec![shows("accepted"), shows("running"), shows("running"), shows("succeeded")]);
    let matches = command().try_get_matches_from(["muster", "whoami"]).unwrap();
    let context = Context::new(&matches, desk.surroundings(), false).unwrap();
    let mut out = Vec::new();
    let (end, late) = follow(
        &context,
        &context.connect().unwrap(),
        "op_1",
        &Value::Null,
        None,
        &mut Screen::new(&mut out, false),
    )
    .await
    .unwrap();
    assert_eq!((end["state"].as_str(), late.is_none()), (Some("succeeded"), true));
    let shown = String::from_utf8(out).unwrap();
    let (steps, evidence): (Vec<&str>, Vec<&str>) = shown.lines().partition(|line| !line.starts_with("  "));
    assert_eq!(
        evidence,
        ["  ✓ train-1 active (verified on nod_1)"],
        "it is told as it comes, and once: {shown}"
    );
    let marks: Vec<&str> = steps.iter().map(|line| line.split("  ").next().unwrap().trim_end()).collect();
    assert_eq!(
        marks,
        ["op_1: allocation.create of train-1", "✓ claim", "… prepare", "✓ prepare", "✓ verify_active"]
    );
}

#[tokio::test]
async fn a_dry_run_shows_the_plan_and_starts_nothing() {
    let desk = Desk::new(vec![ok(r#"{"plan":{"kind":"node.drain","steps":[]}}"#)]);
    desk.type_in("muster node drain gpu-17 --dry-run").await.unwrap();
    assert_eq!(body(&desk.server.requests()[0]), json!({"dry_run": true}));
}

#[tokio::test]
async fn hardware_is_approved_by_the_digest_and_the_version_that_were_shown() {
    let shown = || Reply::Answer(200, vec![("etag", "\"3\"".to_owned())], enrolling().to_string());
    let desk = Desk::new(vec![shown(), ok(&node().to_string())]);
    desk.type_in("muster node approve gpu-17 --yes").await.unwrap();
    assert_eq!(desk.lines(), ["GET /v1/nodes/gpu-17", "POST /v1/nodes/gpu-17/approve"]);
    let approve = &desk.server.requests()[1];
    assert_eq!(body(approve), json!({"digest": "ab".repeat(32)}));
    assert_eq!(approve.header("if-match"), Some("\"3\""));

    let desk = Desk::new(vec![shown()]);
    let failure = desk.type_in("muster node approve gpu-17").await.unwrap_err();
    assert_eq!(failure.exit, Exit::Usage, "nobody can be asked");
    assert!(failure.next.unwrap().contains("--yes"));
    assert_eq!(desk.lines().len(), 1);
}

#[tokio::test]
async fn hardware_that_is_approved_already_is_left_alone_and_a_digest_that_is_given_is_sent() {
    let desk = Desk::new(vec![ok(&node().to_string())]);
    desk.type_in("muster node approve gpu-17").await.unwrap();
    assert_eq!(desk.lines(), ["GET /v1/nodes/gpu-17"]);

    let digest = "cd".repeat(32);
    let desk = Desk::new(vec![ok(&node().to_string())]);
    desk.type_in(&format!("muster node approve gpu-17 --digest {digest} --if-match 3")).await.unwrap();
    assert_eq!(body(&desk.server.requests()[0]), json!({"digest": digest}));
}

#[tokio::test]
async fn a_person_who_does_not_say_yes_approves_nothing() {
    for (typed, calls) in [("y\n", 2), ("n\n", 1), ("\n", 1), ("", 1)] {
        let shown = Reply::Answer(200, vec![("etag", "\"3\"".to_owned())], enrolling().to_string());
        let desk = Desk::new(vec![shown, ok(&node().to_string())]);
        let matches = command().try_get_matches_from(["muster", "node", "approve", "gpu-17"]).unwrap();
        let surroundings = crate::Surroundings { can_ask: true, ..desk.surroundings() };
        let context = Context::new(&matches, surroundings, false).unwrap();
        let levels = super::levels(&matches);
        let approve = muster_sdk::describe::Description::embedded().endpoint("node_approve").unwrap();
        let leaf = levels[levels.len() - 1];
        crate::operate::operate_with(&context, approve, leaf, &mut typed.as_bytes()).await.unwrap();
        assert_eq!(desk.lines().len(), calls, "{typed:?}");
    }
}

#[tokio::test]
async fn a_noun_that_needs_no_more_words_is_a_command() {
    let desk = Desk::new(vec![ok("{}"), ok("{}"), ok("{}")]);
    desk.type_in("muster capacity --gpus 2 --project acme.train").await.unwrap();
    desk.type_in("muster capacity get --project acme.train").await.unwrap();
    desk.type_in("muster quota --project acme.train").await.unwrap();
    assert_eq!(
        desk.lines(),
        [
            "GET /v1/projects/acme.train/capacity?gpus=2",
            "GET /v1/projects/acme.train/capacity",
            "GET /v1/projects/acme.train/quota"
        ]
    );
}
