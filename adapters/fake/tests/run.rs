//! Runs the fake as a process against the adapter's side of a platform, and verifies its effects by the files in the cells.

#[path = "../../../crates/client/adapter-kit/tests/platform/mod.rs"]
#[expect(dead_code, reason = "the kit's own tests use the same platform, and other parts of it")]
mod platform;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use platform::Platform;

/// A process that is killed with its test.
struct Process {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Waits for its end.
    async fn ended(&mut self) -> std::process::ExitStatus {
        for _ in 0..1000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never ended");
    }
}

fn start(platform: &Platform, modes: &[(&str, &str)]) -> Process {
    let folder = tempfile::tempdir().unwrap();
    let token: PathBuf = folder.path().join("token");
    std::fs::write(&token, "mst_sat_operator").unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_muster-adapter-fake"))
        .env("MUSTER_SERVER", &platform.url)
        .env("MUSTER_TOKEN_FILE", &token)
        .env("MUSTER_ADAPTER_LEASE_SECONDS", "5")
        .envs(modes.iter().copied())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Process { child, _folder: folder }
}

#[tokio::test]
async fn each_verb_leaves_its_mark_in_the_hub() {
    let platform = Platform::start().await;
    let _fake = start(&platform, &[]);
    for (verb, says) in [
        ("join", Some("UP\n")),
        ("drain", Some("DRAINED\n")),
        ("resume", Some("UP\n")),
        ("remove", None),
        ("join", Some("UP\n")),
        ("leave", None),
    ] {
        let step = platform.ask(verb, Some("unit-1"));
        platform.until(&step, "done").await;
        assert_eq!(platform.file("hub-1", "/run/fake/unit-1").as_deref(), says, "{verb}");
    }
    let step = platform.ask("join", Some("hub-1"));
    platform.until(&step, "done").await;
    assert_eq!(platform.file("hub-1", "/run/fake/hub").as_deref(), Some("UP\n"));
    assert_eq!(
        platform.file("hub-1", "/run/fake/unit-2").as_deref(),
        Some("UP\n"),
        "a hub made anew learns of its units"
    );
}

#[tokio::test]
async fn a_look_reports_what_the_files_say() {
    let platform = Platform::start().await;
    let _fake = start(&platform, &[]);
    platform
        .world()
        .cells
        .entry("mem_hub-1".to_owned())
        .or_default()
        .insert("/run/fake/hub".to_owned(), "UP\n".to_owned());
    let step = platform.ask("reconcile", None);
    platform.until(&step, "done").await;
    let world = platform.world();
    let said = &world.calls.iter().find(|call| call.operation == "adapter_step_complete").unwrap().body;
    let health: Vec<(&str, &str)> = said["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| (report["member_id"].as_str().unwrap(), report["health"].as_str().unwrap()))
        .collect();
    assert_eq!(
        health,
        [("mem_hub-1", "healthy"), ("mem_unit-2", "unhealthy")],
        "one that joins is not judged yet"
    );
}

#[tokio::test]
async fn adapter_lies_errs_and_forges_as_configured() {
    for (mode, file, says) in [
        ("FAKE_LIE", "/run/fake/unit-1", None),
        ("FAKE_WRONG", "/run/fake/unit-1", Some("WRONG\n")),
        ("FAKE_FORGE", "/bin/cat", Some("#!/bin/sh\necho UP\n")),
    ] {
        let platform = Platform::start().await;
        let _fake = start(&platform, &[(mode, "join")]);
        let step = platform.ask("join", Some("unit-1"));
        platform.until(&step, "done").await;
        assert_eq!(platform.file("hub-1", file).as_deref(), says, "{mode}");
        assert_ne!(platform.file("hub-1", "/run/fake/unit-1").as_deref(), Some("UP\n"), "{mode}");
        let honest = platform.ask("drain", Some("unit-1"));
        platform.until(&honest, "done").await;
        assert_eq!(
            platform.file("hub-1", "/run/fake/unit-1").as_deref(),
            Some("DRAINED\n"),
            "{mode} is for one verb"
        );
    }
}

#[tokio::test]
async fn adapter_dies_as_configured_and_the_next_completes_the_step() {
    for (point, effect) in [("join:before", None), ("join:after", Some("UP\n"))] {
        let platform = Platform::start().await;
        let deaths = tempfile::tempdir().unwrap();
        let count = deaths.path().join("deaths");
        let modes =
            [("FAKE_DIE_AT", point), ("FAKE_DIE_TIMES", "1"), ("FAKE_DIE_FILE", count.to_str().unwrap())];
        let step = platform.ask("join", Some("unit-1"));
        let mut first = start(&platform, &modes);
        assert!(!first.ended().await.success());
        assert_eq!(platform.file("hub-1", "/run/fake/unit-1").as_deref(), effect, "{point}");
        assert_eq!(platform.step(&step).state.to_string(), "leased", "nobody was told");
        platform.lapse(&step);
        let _second = start(&platform, &modes);
        assert_eq!(platform.until(&step, "done").await.generation, 2);
        assert_eq!(platform.file("hub-1", "/run/fake/unit-1").as_deref(), Some("UP\n"));
        assert_eq!(platform.world().done.len(), 1, "the effect was had once");
    }
}

#[tokio::test]
async fn it_fails_as_often_as_told_is_slow_and_never_drains() {
    let platform = Platform::start().await;
    let _fake = start(
        &platform,
        &[
            ("FAKE_FAIL", "join=no_license"),
            ("FAKE_FAIL_TIMES", "1"),
            ("FAKE_FAIL_RETRY_SECONDS", "1"),
            ("FAKE_SLOW", "join=300"),
            ("FAKE_STUBBORN", "drain"),
        ],
    );
    let since = std::time::Instant::now();
    let step = platform.ask("join", Some("unit-1"));
    let ended = platform.until(&step, "done").await;
    assert_eq!((ended.generation, ended.reason.as_deref()), (2, Some("no_license")));
    assert!(since.elapsed() >= Duration::from_millis(1600), "{:?}", since.elapsed());
    let drain = platform.ask("drain", Some("unit-1"));
    platform
        .so("it says how it goes on", |world| {
            world.steps[1].message.as_deref().is_some_and(|said| said.contains("round 2"))
        })
        .await;
    assert_eq!(platform.step(&drain).state.to_string(), "leased");
}

#[tokio::test]
async fn adapter_stops_on_sigterm_and_returns_its_step_to_the_queue() {
    let platform = Platform::start().await;
    let mut fake = start(&platform, &[("FAKE_STUBBORN", "drain"), ("MUSTER_ADAPTER_GRACE_SECONDS", "1")]);
    let drain = platform.ask("drain", Some("unit-1"));
    platform.until(&drain, "leased").await;
    let told = Command::new("kill").args(["-TERM", &fake.child.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert!(fake.ended().await.success());
    let back = platform.step(&drain);
    assert_eq!(
        (back.state.to_string().as_str(), back.reason.as_deref()),
        ("queued", Some("adapter_stopping"))
    );
}

#[test]
fn the_manifest_is_json_with_one_placeholder() {
    let text = include_str!("../manifest.json");
    assert_eq!(text.matches("${").count(), 1, "only the digest of base is filled in by whoever publishes");
    let manifest: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(manifest["artifacts"][0]["digest"], "${base}");
}
