//! The guide's adapter, in Python, against the same fake platform: the contract is HTTP and JSON, and needs no Rust.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_adapter_kit::types::AdapterTaskState;

use crate::platform::{Fault, Platform};

struct Process {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Process {
    fn start(platform: &Platform) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "mst_sat_operator\n").unwrap();
        let child = Command::new("python3")
            .arg(root.join("adapters/example-python/adapter.py"))
            .env("PYTHONPATH", root.join("sdk/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("MUSTER_SERVER", &platform.url)
            .env("MUSTER_TOKEN_FILE", &token)
            .env("EXAMPLE_LEASE_SECONDS", "5")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, _folder: folder }
    }

    fn tell(&self, signal: &str) {
        let told = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    async fn ended(&mut self) -> std::process::ExitStatus {
        for _ in 0..1500 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never ended");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn says(platform: &Platform) -> Option<String> {
    platform.file("hub-1", "/run/example/unit-1")
}

#[tokio::test]
async fn each_verb_leaves_its_mark_and_a_look_reports_it() {
    let platform = Platform::start().await;
    let mut process = Process::start(&platform);
    for (verb, text) in [
        ("join", Some("UP\n")),
        ("drain", Some("DRAINED\n")),
        ("resume", Some("UP\n")),
        ("remove", None),
        ("leave", None),
    ] {
        let step = platform.ask(verb, Some("unit-1"));
        platform.until(&step, "done").await;
        assert_eq!(says(&platform).as_deref(), text, "{verb}");
    }
    let hub = platform.ask("join", Some("hub-1"));
    platform.until(&hub, "done").await;
    let look = platform.ask("reconcile", None);
    platform.until(&look, "done").await;
    let calls = platform.world().calls.clone();
    let said = &calls.iter().rfind(|call| call.operation == "adapter_step_complete").unwrap().body["members"];
    assert_eq!(said[0]["health"], "healthy");
    assert_eq!(
        (said[1]["member_id"].as_str(), said[1]["health"].as_str()),
        (Some("mem_unit-2"), Some("healthy"))
    );
    let newer = platform.ask("levitate", Some("unit-1"));
    assert_eq!(platform.until(&newer, "failed").await.reason.as_deref(), Some("unsupported"));
    process.tell("-TERM");
    assert!(process.ended().await.success());
}

#[tokio::test]
async fn lost_answers_change_nothing_and_effects_are_had_once() {
    let platform = Platform::start().await;
    platform.fault("adapter_step_lease", Fault::Refuse(503, "unavailable"));
    platform.fault("adapter_task_create", Fault::LoseAnswer);
    platform.fault("adapter_step_complete", Fault::Refuse(500, "internal"));
    let step = platform.ask("join", Some("unit-1"));
    let _process = Process::start(&platform);
    platform.until(&step, "done").await;
    assert_eq!(platform.world().done.len(), 1);
}

#[tokio::test]
async fn a_step_of_one_that_was_killed_is_ended_by_the_next_without_a_second_effect() {
    let platform = Platform::start().await;
    // It takes effect but the response is lost, so it cannot continue before it is killed.
    for _ in 0..200 {
        platform.fault("adapter_task_create", Fault::LoseAnswer);
    }
    let step = platform.ask("join", Some("unit-1"));
    let mut first = Process::start(&platform);
    platform.so("it had its effect", |world| !world.done.is_empty()).await;
    first.tell("-KILL");
    first.ended().await;
    platform.world().faults.clear();
    // On a loaded machine the first process may have leased it twice before it was killed.
    let held = platform.world().steps[0].generation;
    platform.lapse(&step);
    let _second = Process::start(&platform);
    assert_eq!(platform.until(&step, "done").await.generation, held + 1);
    assert_eq!(platform.world().done.len(), 1);
}

#[tokio::test]
async fn task_failed_under_an_earlier_lease_is_requested_again() {
    let platform = Platform::start().await;
    platform.world().nodes_sleep = true;
    let step = platform.ask("join", Some("unit-1"));
    let _process = Process::start(&platform);
    platform.so("it asked for its task", |world| !world.tasks.is_empty()).await;
    {
        let mut world = platform.world();
        world.tasks[0].task.state = AdapterTaskState::Failed;
        world.nodes_sleep = false;
    }
    platform
        .so("the step failed for now", |world| world.steps[0].reason.as_deref() == Some("task_failed"))
        .await;
    assert_eq!(platform.until(&step, "done").await.generation, 2);
    assert_eq!(says(&platform).as_deref(), Some("UP\n"));
    assert_eq!(platform.world().tasks.len(), 2, "once in vain, and once more under the second lease");
}

#[tokio::test]
async fn adapter_abandons_a_step_leased_by_another() {
    let platform = Platform::start().await;
    platform.world().nodes_sleep = true;
    let step = platform.ask("join", Some("unit-1"));
    let _process = Process::start(&platform);
    platform
        .so("it waits for its task", |world| {
            world.calls.iter().any(|call| call.operation == "adapter_task_get")
        })
        .await;
    platform.steal(&step);
    let next = platform.ask("remove", Some("unit-2"));
    platform.until(&next, "leased").await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    {
        let mut world = platform.world();
        world.tasks[0].task.state = AdapterTaskState::Done;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let now = platform.step(&step);
    assert_eq!((now.state.to_string().as_str(), now.generation), ("leased", 2), "nothing was said of it");
    assert_eq!(platform.count("adapter_step_complete"), 0);
}
