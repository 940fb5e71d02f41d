//! Command line of every adapter.

use muster_adapter_kit::types::AdapterStepState;
use muster_adapter_kit::{file, main_with};

use crate::person::{Person, done, options};
use crate::platform::{Entitled, Fault, OPERATES, PROJECT, Platform};

fn writer() -> Person {
    Person::new(|cx| {
        Box::pin(async move {
            cx.progress(10, "begun").await;
            cx.write_files(cx.member()?, vec![file("/etc/x", "hello")]).await?;
            done()
        })
    })
}

/// Returns the exit status and the output.
async fn said(platform: &Platform, token: &str, words: &[&str]) -> (u8, String) {
    let (options, _folder) = options(platform, token);
    let file = options.token_files[0].display().to_string();
    let mut line = vec!["person", "--server", &platform.url, "--token-file", &file];
    line.extend(words);
    let mut out = Vec::new();
    let code = main_with(writer(), line, &mut out).await;
    (code, String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn check_says_who_it_is_and_what_is_missing() {
    let platform = Platform::start().await;
    let (code, out) = said(&platform, "mst_sat_operator", &["check"]).await;
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("operator (sa_1) in the project prj_consumer"), "{out}");
    assert!(out.contains("contract    1; the API of"), "{out}");
    assert!(out.ends_with("\nready\n"), "{out}");
    platform.account("mst_sat_poor", "poor", PROJECT, &OPERATES[..5]);
    let (code, out) = said(&platform, "mst_sat_poor", &["check"]).await;
    assert_eq!(code, 1);
    assert!(
        out.contains("no: it lacks adapter_step.complete, adapter_step.fail, adapter_task.create"),
        "{out}"
    );
}

#[tokio::test]
async fn lease_list_shows_who_holds_what() {
    let platform = Platform::start().await;
    let (held, waiting) = (platform.ask("join", Some("unit-1")), platform.ask("drain", Some("unit-2")));
    platform.world().steps[0].state = AdapterStepState::Leased;
    platform.steal(&held);
    let (code, out) = said(&platform, "mst_sat_operator", &["lease-list"]).await;
    assert_eq!(code, 0);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(
        lines[1].starts_with(&held) && lines[1].contains("another") && lines[1].contains("leased"),
        "{out}"
    );
    assert!(lines[2].starts_with(&waiting) && lines[2].contains("drain"), "{out}");
}

#[tokio::test]
async fn a_consumer_who_gives_no_token_hides_no_other() {
    let platform = Platform::start().await;
    platform.account(
        "mst_sat_publisher",
        "publisher",
        "prj_publisher",
        &["operator_token.mint", "entitlement.list"],
    );
    for (id, project) in [("ent_1", "prj_revoked"), ("ent_2", "prj_a")] {
        let held = Entitled { id: id.to_owned(), app: "fake".to_owned(), project: project.to_owned() };
        platform.world().entitled.push(held);
    }
    let step = platform.ask_in("prj_a", "join", Some("unit-1"));
    for words in [&["lease-list"][..], &["replay", &step]] {
        platform.fault("operator_token_mint", Fault::Refuse(409, "invalid_state"));
        let (code, out) = said(&platform, "mst_sat_publisher", words).await;
        assert_eq!(code, 0, "{words:?}: {out}");
        assert!(!out.is_empty() && (words.len() > 1 || out.contains(&step)), "{out}");
    }
    // A refused consumer is not retried, and with no other the reason is returned.
    platform.world().entitled.truncate(1);
    platform.fault("operator_token_mint", Fault::Refuse(409, "invalid_state"));
    let (code, _) = said(&platform, "mst_sat_publisher", &["replay", &step]).await;
    assert_eq!(code, 1);
}

#[tokio::test]
async fn a_rehearsal_prints_what_would_be_asked_for_and_asks_for_none_of_it() {
    let platform = Platform::start().await;
    let step = platform.ask("join", Some("unit-1"));
    let (code, out) = said(&platform, "mst_sat_operator", &["replay", &step]).await;
    assert_eq!(code, 0, "{out}");
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert_eq!(lines[0]["progress"]["percent"], 10);
    assert_eq!(lines[1]["member"], "unit-1");
    assert_eq!(lines[1]["task"]["files"]["write"][0]["path"], "/etc/x");
    assert!(lines[2]["complete"].is_object());
    assert_eq!(platform.step(&step).state.to_string(), "queued");
    assert!(
        platform
            .world()
            .calls
            .iter()
            .all(|call| ["whoami", "adapter_step_get"].contains(&call.operation.as_str()))
    );
}

#[tokio::test]
async fn for_real_the_step_is_leased_and_others_are_handed_back() {
    let platform = Platform::start().await;
    let (other, step) = (platform.ask("join", Some("unit-2")), platform.ask("join", Some("unit-1")));
    let (code, out) = said(&platform, "mst_sat_operator", &["replay", &step, "--for-real"]).await;
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("completed"), "{out}");
    assert_eq!(platform.step(&step).state.to_string(), "done");
    assert_eq!(platform.step(&other).state.to_string(), "queued");
    assert_eq!(platform.file("unit-1", "/etc/x").as_deref(), Some("hello"));
    let (code, _) = said(&platform, "mst_sat_operator", &["replay", &step, "--for-real"]).await;
    assert_eq!(code, 1, "one that is over cannot be leased");
    let (code, _) = said(&platform, "mst_sat_operator", &["replay", "astp_99"]).await;
    assert_eq!(code, 1, "one that is not there is no rehearsal either");
}

#[tokio::test]
async fn help_is_a_success_and_a_mistake_is_not() {
    let platform = Platform::start().await;
    let (code, out) = said(&platform, "x", &["--help"]).await;
    assert_eq!(code, 0);
    for word in ["run", "check", "lease-list", "replay", "MUSTER_TOKEN_FILE"] {
        assert!(out.contains(word), "{word} is not in the help: {out}");
    }
    let (code, _) = said(&platform, "x", &["dance"]).await;
    assert_eq!(code, 2);
}
