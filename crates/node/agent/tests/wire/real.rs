//! The same with real cells: a pulled image is unpacked, its layers are removed, secrets are in their files, and a modified
//! image does not run. Needs root to create cells.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use muster_agent::CrashHook;
use muster_agent::real::{self, Settings};
use muster_ids::{AllocationId, CellId};
use muster_image::Digest;
use muster_wire::cell::SecretFile;
use muster_wire::task::{Ending, Refusal, Report, Task, TaskKind};

use crate::machine::{Machine, created, kill, of_kind};
use crate::pull::{create, prepare, refusal, reported, trust};
use crate::server::Server;

const CANARY: &str = "CANARY-3f-of-a-real-cell";
/// An image that exists nowhere.
const NOWHERE: &str = "sha256:0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";

pub(crate) fn settings(machine: &Machine) -> Settings {
    settings_of(machine, std::process::id())
}

/// Settings that no test with another number uses at the same time.
pub(crate) fn settings_of(machine: &Machine, number: u32) -> Settings {
    let missing = real::missing_tools();
    assert!(missing.is_empty(), "this test makes real cells and lacks {missing:?}");
    Settings {
        shared_files: None,
        key: format!("w{:05}", number % 100_000),
        folder: machine.path().join("driver"),
        run: machine.path().join("run"),
        images: None,
        host_directories: Vec::new(),
        address: Ipv4Addr::LOCALHOST,
        devices: std::collections::BTreeMap::new(),
        project_images_percent: 100,
        checks: muster_cell::CheckLimits::new(1, 1_024).unwrap(),
        // Between those of the tests of cells and those of `muster up`, which other suites start meanwhile.
        id_base: 1_000_000_000 + 1_048_576 * (number % 800),
        crash: CrashHook::default(),
    }
}

/// A layer with busybox only.
pub(crate) fn layer() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let busybox = std::fs::read("/bin/busybox").expect("the tests of cells need a static /bin/busybox");
    let mut header = tar::Header::new_gnu();
    header.set_size(busybox.len() as u64);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    archive.append_data(&mut header, "bin/busybox", busybox.as_slice()).unwrap();
    archive.into_inner().unwrap()
}

/// Returns the files that contain the canary, including disks of allocations.
fn canaries(folder: &Path) -> String {
    let grep = Command::new("grep").args(["-rlaF", CANARY]).arg(folder).output().unwrap();
    assert_ne!(grep.status.code(), Some(2), "{}", String::from_utf8_lossy(&grep.stderr));
    String::from_utf8(grep.stdout).unwrap()
}

/// Control groups that a driver creates once and leaves, removed at the end of the test.
pub(crate) struct Groups(pub(crate) String);

impl Drop for Groups {
    fn drop(&mut self) {
        let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        folders.extend(hierarchies.map(|hierarchy| hierarchy.path()));
        for folder in folders {
            let _ = std::fs::remove_dir(folder.join("muster").join(&self.0));
        }
    }
}

#[tokio::test]
async fn an_image_is_pulled_unpacked_and_guarded_and_secrets_are_in_the_cell_alone() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (a, cell): (AllocationId, CellId) = (machine.env.id(), machine.env.id());
    let (mut image, mut layer_digest) = (String::new(), String::new());
    server.script(|state| {
        let layer = state.registry.blob(layer());
        layer_digest = layer["digest"].as_str().unwrap().to_owned();
        image = state.registry.image(&[layer]);
        state.secrets.insert("password".to_owned(), CANARY.into());
    });
    let of = |kind, incarnation| {
        let mut task: Task = create(&machine, a, cell, &image, trust(false));
        let act = created(&mut task);
        act.cell.incarnation = incarnation;
        let secret = SecretFile { secret: "db".into(), file: "password".into(), uid: 7, gid: 8 };
        act.spec.secrets.push(secret);
        of_kind(kind, task)
    };
    let settings = settings(&machine);
    let _groups = Groups(settings.key.clone());
    let driver = real::Driver::open(settings, &machine.env).unwrap();
    let running = machine.start_with(Arc::new(driver));
    let blob = |digest: &str| {
        let digest: Digest = digest.parse().unwrap();
        machine.path().join("agent/pulled/blobs/sha256").join(digest.hex())
    };
    let rootfs = machine.path().join(format!("driver/images/sha256-{}/rootfs", &image[7..]));

    // All actions come before all assertions, so that a failure leaves nothing on the machine.
    let first = reported(&server, vec![prepare(&machine, a), of(TaskKind::CellCreate, 1)]).await;
    let pid = first[1].findings.cell.as_ref().map_or(0, |cell| cell.pid);
    let inside = PathBuf::from(format!("/proc/{pid}/root")).join("run/muster/secrets/password");
    let (told, found) = (std::fs::read_to_string(&inside), canaries(machine.path()));
    let layers_gone = !blob(&layer_digest).exists() && blob(&image).exists();
    let again = reported(&server, vec![of(TaskKind::CellCreate, 1)]).await;

    // An unpublished image can only come from the operator, and there is none here.
    let mut unpublished = create(&machine, a, machine.env.id(), NOWHERE, trust(false));
    created(&mut unpublished).pull = None;
    let nowhere = reported(&server, vec![unpublished]).await;

    // A repeated order changes nothing, even if the image was modified meanwhile: the cell keeps running.
    let planted = std::fs::write(rootfs.join("bin/planted"), b"#!");
    let repeated = reported(&server, vec![of(TaskKind::CellCreate, 1)]).await;
    let damaged = reported(&server, vec![of(TaskKind::CellDestroy, 1), of(TaskKind::CellCreate, 2)]).await;
    let gone = std::fs::read_to_string(&inside);
    let anew = reported(&server, vec![of(TaskKind::CellDestroy, 2), of(TaskKind::CellCreate, 3)]).await;
    let aside = std::fs::read_dir(machine.path().join("driver/images/aside")).map(Iterator::count);
    server.script(|state| state.secrets.clear());
    let unreported = reported(&server, vec![of(TaskKind::CellDestroy, 3), of(TaskKind::CellCreate, 4)]).await;
    let looked = reported(&server, vec![of(TaskKind::CellInspect, 4)]).await;

    let wipe = of_kind(TaskKind::Wipe, prepare(&machine, a));
    let destroy = of_kind(TaskKind::Destroy, prepare(&machine, a));
    let ended = reported(&server, vec![destroy, wipe]).await;
    kill(running).await;

    let done = |reports: &[Report]| reports.iter().all(|report| report.ending == Ending::Done);
    assert!(done(&first) && done(&again) && done(&repeated) && done(&ended), "{first:?} {again:?} {ended:?}");
    planted.unwrap();
    assert_eq!(told.unwrap(), CANARY);
    assert_eq!(found, "");
    assert!(layers_gone, "layers go when they are unpacked, and documents stay");
    let cell_of = |report: &Report| report.findings.cell.clone().unwrap();
    assert_eq!(cell_of(&repeated[0]).pid, pid);
    let (refused, why) = refusal(&nowhere[0]);
    assert_eq!(refused, Some(Refusal::Unsupported), "{why}");
    assert!(why.contains(NOWHERE) && why.ends_with("push it to a repository of the project"), "{why}");
    let (refused, why) = refusal(&damaged[1]);
    assert_eq!(refused, Some(Refusal::ArtifactDamaged), "{why}");
    assert!(why.contains("/bin/planted was added"), "{why}");
    assert!(gone.is_err(), "secrets end with their cell");
    assert!(done(&anew), "{anew:?}");
    assert!(matches!(aside, Ok(0)), "nobody ran from what was set aside any more: {aside:?}");
    let state = server.state.lock();
    assert_eq!(state.registry.count(&layer_digest), 2, "it was pulled anew");
    drop(state);
    let (refused, why) = refusal(&unreported[1]);
    assert_eq!(refused, Some(Refusal::Secret), "{why}");
    let left = cell_of(&looked[0]);
    assert!(!left.present && left.left.is_empty(), "{left:?}");
}

/// The message of a failed task reaches tenants: it names no path of the machine.
#[tokio::test]
async fn the_reason_of_a_failure_names_no_path_of_the_node() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let settings = settings(&machine);
    let _groups = Groups(settings.key.clone());
    let disks = settings.folder.join("disks");
    let driver = real::Driver::open(settings, &machine.env).unwrap();
    let running = machine.start_with(Arc::new(driver));
    // A file where the agent keeps its disks: no sandbox can be created.
    std::fs::remove_dir_all(&disks).unwrap();
    std::fs::write(&disks, "").unwrap();
    let failed = reported(&server, vec![prepare(&machine, machine.env.id())]).await;
    kill(running).await;
    let (_, message) = refusal(&failed[0]);
    assert!(message.contains("[a path on the node]"), "{message}");
    assert!(!message.contains(machine.path().to_str().unwrap()), "{message}");
}
