//! Images, pulled by digest with one token, from a registry that may send wrong data and refuse requests.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use muster_ids::{AllocationId, CellId};
use muster_image::Digest;
use muster_wire::cell::{Pull, Trust};
use muster_wire::task::{Ending, Refusal, Report, Task, TaskKind};
use muster_wire::wire::SecretWhat;
use serde_json::{Value, json};

use crate::machine::{Machine, created, kill};
use crate::registry::{Instead, REPOSITORY, path};
use crate::server::Server;

/// A machine that pulls, and the sandbox of an allocation on it.
pub(crate) async fn scene() -> (Server, Machine, AllocationId) {
    let server = Server::start().await;
    let mut machine = Machine::joined(&server).await;
    machine.pulls = true;
    let allocation = machine.env.id();
    (server, machine, allocation)
}

pub(crate) fn prepare(machine: &Machine, allocation: AllocationId) -> Task {
    machine.bare(TaskKind::Prepare, allocation, 1)
}

pub(crate) fn trust(required: bool) -> Trust {
    Trust { required, policy: "policy-1".to_owned(), keys: Vec::new() }
}

/// A task that creates a cell from this image.
pub(crate) fn create(
    machine: &Machine,
    allocation: AllocationId,
    cell: CellId,
    image: &str,
    trust: Trust,
) -> Task {
    let mut task = machine.of_cell(TaskKind::CellCreate, allocation, cell, 3);
    let act = created(&mut task);
    act.name = "web".to_owned();
    act.spec = serde_json::from_value(json!({"root": {"image": image}})).unwrap();
    act.pull = Some(Pull { repository: REPOSITORY.to_owned(), digest: image.to_owned(), trust });
    task
}

/// Delivers these tasks, and waits for all reports.
pub(crate) async fn reported(server: &Server, tasks: Vec<Task>) -> Vec<Report> {
    let (before, count) = (server.reports().len(), tasks.len());
    server.script(|state| state.work.push_back(tasks));
    server.until("all are reported", |state| state.reports.len() == before + count).await;
    server.reports().split_off(before)
}

/// Returns the reason code and the message of a refusal.
pub(crate) fn refusal(report: &Report) -> (Option<Refusal>, String) {
    assert_eq!(report.ending, Ending::Failed, "{report:?}");
    (report.findings.refusal, report.message.clone().unwrap())
}

pub(crate) fn pulled(machine: &Machine) -> PathBuf {
    machine.path().join("agent/pulled")
}

/// Returns the names in a folder.
pub(crate) fn names(folder: PathBuf) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

pub(crate) fn kept(machine: &Machine, descriptor: &Value) -> Option<Vec<u8>> {
    let digest: Digest = descriptor["digest"].as_str().unwrap().parse().unwrap();
    fs::read(pulled(machine).join("blobs/sha256").join(digest.hex())).ok()
}

pub(crate) fn some(length: usize, salt: u8) -> Bytes {
    (0..length).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ salt).collect::<Vec<u8>>().into()
}

#[tokio::test]
async fn an_image_is_pulled_by_its_digest_with_a_token_that_is_asked_for_once() {
    let (server, machine, a) = scene().await;
    let cell: CellId = machine.env.id();
    let mut image = String::new();
    let mut layers = Vec::new();
    server.script(|state| {
        let registry = &mut state.registry;
        layers = (0..7).map(|salt| registry.blob(some(300_000, salt))).collect();
        image = registry.image(&layers);
        // Tags are never requested.
        registry.holds.insert(path("manifests", "latest"), Bytes::from_static(b"another image"));
    });
    let running = machine.start();
    let tasks = vec![prepare(&machine, a), create(&machine, a, cell, &image, trust(false))];
    let reports = reported(&server, tasks).await;
    assert_eq!(reports[1].ending, Ending::Done, "{:?}", reports[1]);
    for (salt, layer) in layers.iter().enumerate() {
        assert_eq!(kept(&machine, layer).unwrap(), some(300_000, salt as u8));
    }
    assert_eq!(names(pulled(&machine).join("partial")), Vec::<String>::new());
    {
        let state = server.state.lock();
        let asks: Vec<_> =
            state.secret_asks.iter().map(|ask| (ask.cell_id, ask.incarnation, &ask.what)).collect();
        assert_eq!(asks, [(cell, 3, &SecretWhat::ArtifactPull)]);
        for layer in &layers {
            assert_eq!(state.registry.count(layer["digest"].as_str().unwrap()), 1);
        }
        let tags = state.registry.asked.iter().filter(|(asked, _)| {
            asked.contains("/manifests/") && !asked.contains("sha256:") && !asked.ends_with(".sig")
        });
        assert_eq!(tags.count(), 0, "tags mean nothing to a node: {:?}", state.registry.asked);
    }
    kill(running).await;
}

#[tokio::test]
async fn blob_with_another_digest_or_length_is_refused_and_discarded() {
    let cases: [(Instead, &str); 4] = [
        (Instead::Give(some(200_000, 9)), "but sha256:"),
        (Instead::Give(some(200_001, 1)), "has 200001 bytes"),
        (Instead::Give(some(199_999, 1)), "has 199999 bytes"),
        (Instead::Say(5), "has 5 bytes"),
    ];
    for (instead, says) in cases {
        let (server, machine, a) = scene().await;
        let cell: CellId = machine.env.id();
        let (mut image, mut layer) = (String::new(), Value::Null);
        server.script(|state| {
            let registry = &mut state.registry;
            layer = registry.blob(some(200_000, 1));
            image = registry.image(std::slice::from_ref(&layer));
            if !matches!(instead, Instead::Say(_)) {
                registry.instead("blobs", &layer["digest"], instead.clone());
            } else {
                // The descriptor is wrong: it declares another length for the same content.
                let mut short = layer.clone();
                short["size"] = json!(5);
                image = registry.image(&[short]);
            }
        });
        let says = if matches!(instead, Instead::Say(_)) { "has 200000 bytes" } else { says };
        let running = machine.start();
        let tasks = vec![prepare(&machine, a), create(&machine, a, cell, &image, trust(false))];
        let reports = reported(&server, tasks).await;
        let (refused, why) = refusal(&reports[1]);
        assert_eq!(refused, Some(Refusal::ArtifactDamaged), "{why}");
        assert!(why.contains(says), "{says}: {why}");
        if let Instead::Give(bytes) = &instead
            && bytes.len() == 200_000
        {
            let (found, asked) = (Digest::of(bytes), layer["digest"].as_str().unwrap());
            assert!(why.contains(&format!("has the digest {found}, but {asked} was requested")), "{why}");
            assert_eq!(names(pulled(&machine).join("partial")), Vec::<String>::new());
        }
        assert_eq!(kept(&machine, &layer), None);
        // The data was damaged in transit: a retry succeeds.
        if !matches!(instead, Instead::Say(_)) {
            let again = reported(&server, vec![create(&machine, a, cell, &image, trust(false))]).await;
            assert_eq!(again[0].ending, Ending::Done, "{again:?}");
        }
        kill(running).await;
    }
}

#[tokio::test]
async fn a_manifest_that_is_another_is_refused_whoever_it_points_to() {
    let (server, machine, a) = scene().await;
    let cell: CellId = machine.env.id();
    let mut image = String::new();
    server.script(|state| {
        let registry = &mut state.registry;
        let (one, two) = (registry.blob("one"), registry.blob("two"));
        image = registry.image(&[one]);
        let other = registry.image(&[two]);
        let other = registry.holds[&path("manifests", &other)].clone();
        registry.holds.insert(path("manifests", &image), other);
    });
    let running = machine.start();
    let tasks = vec![prepare(&machine, a), create(&machine, a, cell, &image, trust(false))];
    let (refused, why) = refusal(&reported(&server, tasks).await[1]);
    assert_eq!(refused, Some(Refusal::ArtifactDamaged));
    assert!(why.contains(&format!("but {image} was requested")), "{why}");
    assert_eq!(server.state.lock().registry.count("/blobs/"), 0, "nothing that it leads to is asked for");
    kill(running).await;
}

#[tokio::test]
async fn refusals_are_told_in_the_servers_words() {
    let (server, machine, a) = scene().await;
    let mut images = Vec::new();
    server.script(|state| {
        let registry = &mut state.registry;
        for (salt, status) in [(1, 401), (2, 403), (3, 404)] {
            let layer = registry.blob(some(10, salt));
            images.push(registry.image(std::slice::from_ref(&layer)));
            let says = "this project may not read that";
            registry.instead("blobs", &layer["digest"], Instead::Refuse(status, says));
            registry.instead("blobs", &layer["digest"], Instead::Refuse(status, says));
        }
    });
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a)]).await;
    for image in &images {
        let task = create(&machine, a, machine.env.id(), image, trust(false));
        let (refused, why) = refusal(&reported(&server, vec![task]).await[0]);
        assert_eq!(refused, Some(Refusal::ArtifactPull));
        assert!(why.contains("this project may not read that") && !why.contains("CANARY"), "{why}");
    }
    let task = create(&machine, a, machine.env.id(), &Digest::of(b"nothing").to_string(), trust(false));
    let (refused, why) = refusal(&reported(&server, vec![task]).await[0]);
    assert_eq!(refused, Some(Refusal::ArtifactPull));
    assert!(why.contains("the repository does not hold it"), "{why}");
    let mut wrong = create(&machine, a, machine.env.id(), &images[0], trust(false));
    let pull = created(&mut wrong).pull.as_mut().unwrap();
    pull.repository = "../../node/v1/x".to_owned();
    let (refused, why) = refusal(&reported(&server, vec![wrong]).await[0]);
    assert_eq!(refused, Some(Refusal::ArtifactPull));
    assert!(why.contains("invalid repository name"), "{why}");
    kill(running).await;
}

#[tokio::test]
async fn a_token_that_ends_amid_a_pull_is_asked_for_again() {
    let (server, machine, a) = scene().await;
    let mut image = String::new();
    server.script(|state| {
        let registry = &mut state.registry;
        let layers: Vec<Value> = (0..5).map(|salt| registry.blob(some(1000, salt))).collect();
        image = registry.image(&layers);
        registry.token_ends_after = Some(5);
    });
    let running = machine.start();
    let task = create(&machine, a, machine.env.id(), &image, trust(false));
    let reports = reported(&server, vec![prepare(&machine, a), task]).await;
    assert_eq!(reports[1].ending, Ending::Done, "{:?}", reports[1]);
    assert_eq!(server.state.lock().secret_asks.len(), 2);
    kill(running).await;
}

#[tokio::test]
async fn two_cells_that_need_the_same_layer_fetch_it_once() {
    let (server, machine, a) = scene().await;
    let b: AllocationId = machine.env.id();
    let (mut images, mut shared) = (Vec::new(), Value::Null);
    server.script(|state| {
        let registry = &mut state.registry;
        shared = registry.blob(some(2_000_000, 1));
        let other = registry.blob(some(1000, 2));
        images =
            vec![registry.image(std::slice::from_ref(&shared)), registry.image(&[shared.clone(), other])];
    });
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), prepare(&machine, b)]).await;
    let one = create(&machine, a, machine.env.id(), &images[0], trust(false));
    let two = create(&machine, b, machine.env.id(), &images[1], trust(false));
    let reports = reported(&server, vec![one, two]).await;
    assert!(reports.iter().all(|report| report.ending == Ending::Done), "{reports:?}");
    assert_eq!(server.state.lock().registry.count(shared["digest"].as_str().unwrap()), 1);
    kill(running).await;
}

#[tokio::test]
async fn of_an_index_only_what_is_for_this_machine_is_fetched() {
    let (server, machine, a) = scene().await;
    let (mut index, mut other) = (String::new(), Value::Null);
    server.script(|state| {
        let registry = &mut state.registry;
        let ours = registry.blob(some(1000, 1));
        other = registry.blob(some(1000, 2));
        let descriptors: Vec<Value> = [("amd64", ours), ("s390x", other.clone())]
            .into_iter()
            .map(|(architecture, layer)| {
                let digest = registry.image(&[layer]);
                let size = registry.holds[&path("manifests", &digest)].len();
                json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": size,
                    "platform": {"os": "linux", "architecture": architecture}})
            })
            .rev()
            .collect();
        let document = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": descriptors});
        index = registry.document(&document)["digest"].as_str().unwrap().to_owned();
    });
    let running = machine.start();
    let task = create(&machine, a, machine.env.id(), &index, trust(false));
    let reports = reported(&server, vec![prepare(&machine, a), task]).await;
    assert_eq!(reports[1].ending, Ending::Done, "{:?}", reports[1]);
    assert_eq!(server.state.lock().registry.count(other["digest"].as_str().unwrap()), 0);
    kill(running).await;
}
