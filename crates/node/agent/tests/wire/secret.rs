//! Secrets of cells: requested when the cell is created, for that incarnation, and never revealed by the node.

use std::collections::VecDeque;

use muster_ids::{AllocationId, CellId};
use muster_wire::cell::SecretFile;
use muster_wire::task::{Ending, Refusal, Task, TaskKind};
use muster_wire::wire::SecretWhat;

use crate::machine::{Machine, created, kill};
use crate::pull::{create, prepare, refusal, reported, trust};
use crate::server::{Instead, Server};

const CANARY: &str = "CANARY-hunter2";

fn with_secrets(machine: &Machine, a: AllocationId, cell: CellId, files: &[&str]) -> Task {
    let image = muster_image::Digest::of(b"simulated").to_string();
    let mut task = create(machine, a, cell, &image, trust(true));
    let spec = &mut created(&mut task).spec;
    let secret =
        |file: &&str| SecretFile { secret: format!("the-{file}"), file: (*file).to_owned(), uid: 0, gid: 0 };
    spec.secrets = files.iter().map(secret).collect();
    task
}

#[tokio::test]
async fn a_simulated_node_asks_for_all_that_a_real_one_needs_and_keeps_only_that_it_came() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    server.script(|state| {
        state.secrets = ["password", "key"].map(|file| (file.to_owned(), CANARY.into())).into();
    });
    let running = machine.start();
    let task = with_secrets(&machine, a, cell, &["password", "key"]);
    let reports = reported(&server, vec![prepare(&machine, a), task.clone()]).await;
    assert_eq!(reports[1].ending, Ending::Done, "{:?}", reports[1]);
    let asked = || {
        let state = server.state.lock();
        assert!(state.secret_asks.iter().all(|ask| ask.cell_id == cell && ask.incarnation == 3));
        state.secret_asks.iter().map(|ask| ask.what.clone()).collect::<Vec<_>>()
    };
    let file = |file: &str| SecretWhat::File(file.to_owned());
    assert_eq!(asked(), [SecretWhat::ArtifactPull, file("password"), file("key")]);
    assert!(server.state.lock().registry.asked.is_empty(), "the rest is simulated");
    let mut text = String::new();
    for entry in walk(machine.path()) {
        text += &String::from_utf8_lossy(&std::fs::read(entry).unwrap());
    }
    assert!(text.contains("secret password") && text.contains("\"image\""), "{text}");
    assert!(!text.contains("CANARY"), "neither a secret nor a token is on the disk");
    assert!(!serde_json::to_string(&server.reports()).unwrap().contains("CANARY"));
    // A running cell needs no content: it is not requested again, and its absence is no failure.
    server.script(|state| state.secrets.clear());
    let again = reported(&server, vec![Task { id: machine.env.id(), ..task }]).await;
    assert_eq!(again[0].ending, Ending::Done);
    assert_eq!(asked().len(), 3);
    kill(running).await;
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test]
async fn a_secret_that_is_refused_fails_the_cell_and_says_which() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    server.script(|state| drop(state.secrets.insert("password".to_owned(), CANARY.into())));
    let running = machine.start();
    let task = with_secrets(&machine, a, cell, &["password", "gone"]);
    let reports = reported(&server, vec![prepare(&machine, a), task.clone()]).await;
    let (refused, why) = refusal(&reports[1]);
    assert_eq!(refused, Some(Refusal::Secret));
    assert!(why.contains("the-gone") && why.contains("there is no such secret"), "{why}");
    assert!(!why.contains("CANARY"), "{why}");
    let cell = task.act.cell().unwrap();
    let inspect = machine.of_cell(TaskKind::CellInspect, a, cell.cell_id, cell.incarnation);
    let seen = reported(&server, vec![inspect]).await;
    assert!(!seen[0].findings.cell.as_ref().unwrap().present, "nothing is left of it");
    kill(running).await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_the_image_that_cannot_be_had() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    server.script(|state| {
        let refusals = VecDeque::from([Instead::Refuse(403, "that artifact was retired")]);
        state.instead.insert("secret", refusals);
    });
    let running = machine.start();
    let task = with_secrets(&machine, a, cell, &[]);
    let reports = reported(&server, vec![prepare(&machine, a), task]).await;
    let (refused, why) = refusal(&reports[1]);
    assert_eq!(refused, Some(Refusal::ArtifactPull));
    assert!(why.contains("that artifact was retired"), "{why}");
    kill(running).await;
}

#[tokio::test]
async fn an_answer_that_was_lost_and_a_session_that_is_over_are_no_refusals() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    server.script(|state| {
        state.secrets.insert("password".to_owned(), CANARY.into());
        let mishaps =
            [Instead::BreakOff, Instead::Refuse(503, "later"), Instead::Refuse(409, "that session is over")];
        state.instead.insert("secret", VecDeque::from(mishaps));
    });
    let running = machine.start();
    let task = with_secrets(&machine, a, cell, &["password"]);
    let reports = reported(&server, vec![prepare(&machine, a), task]).await;
    assert_eq!(reports[1].ending, Ending::Done, "{:?}", reports[1]);
    kill(running).await;
}
