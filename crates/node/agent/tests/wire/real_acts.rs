//! Actions in a real cell, and checks beside it, as tasks. Needs root to create cells.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_agent::real;
use muster_ids::{AllocationId, CellId};
use muster_wire::cell::{CellSpec, ServiceState};
use muster_wire::task::{Ending, Refusal, Report, Task, TaskKind};
use serde_json::{Value, json};

use crate::killed::start_real;
use crate::machine::{Machine, changed, created, in_cell, kill, of_kind};
use crate::pull::{create, prepare, refusal, reported, trust};
use crate::real::{Groups, layer, settings};
use crate::server::Server;

const CANARY: &str = "CANARY-4b-of-an-act";

fn busybox(script: &str) -> Value {
    json!(["/bin/busybox", "sh", "-c", script])
}

struct Scene {
    server: Server,
    machine: Machine,
    allocation: AllocationId,
    cell: CellId,
    image: String,
}

async fn scene() -> (Scene, real::Settings) {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (allocation, cell) = (machine.env.id(), machine.env.id());
    let mut image = String::new();
    server.script(|state| {
        let layer = state.registry.blob(layer());
        image = state.registry.image(&[layer]);
        state.secrets.insert("key".to_owned(), CANARY.into());
    });
    let settings = settings(&machine);
    (Scene { server, machine, allocation, cell, image }, settings)
}

impl Scene {
    fn about(&self, kind: TaskKind) -> Task {
        let mut task = create(&self.machine, self.allocation, self.cell, &self.image, trust(false));
        let spec = json!({
            "root": {"image": self.image},
            "state": ["/data"],
            "services": [{"name": "later", "start": "on_request", "command": busybox("echo start >> /data/starts; exec sleep 1000")}],
        });
        created(&mut task).spec = serde_json::from_value::<CellSpec>(spec).unwrap();
        of_kind(kind, task)
    }

    fn act(&self, act: Value) -> Task {
        let cell = self.about(TaskKind::CellInspect).act.cell().unwrap();
        in_cell(&self.machine, self.allocation, cell, &act)
    }

    fn command(&self, command: Value) -> Task {
        self.act(json!({"command": {"command": command}}))
    }

    fn probe(&self, command: Value) -> Task {
        self.act(json!({"probe": {"command": command, "sees": ["/data"]}}))
    }

    /// Creates the sandbox and the cell.
    async fn made(&self) -> Vec<Report> {
        let place = prepare(&self.machine, self.allocation);
        reported(&self.server, vec![place, self.about(TaskKind::CellCreate)]).await
    }

    /// Destroys both and wipes their data.
    async fn ended(&self) -> Vec<Report> {
        let place = || prepare(&self.machine, self.allocation);
        let ends = [TaskKind::Destroy, TaskKind::Wipe].map(|kind| of_kind(kind, place()));
        reported(&self.server, ends.to_vec()).await
    }

    async fn told(&self, task: Task) -> Report {
        reported(&self.server, vec![task]).await.remove(0)
    }

    fn start(
        &self,
        settings: &real::Settings,
    ) -> tokio::task::JoinHandle<Result<(), muster_agent::AgentError>> {
        let driver = real::Driver::open(settings.clone(), &self.machine.env).unwrap();
        self.machine.start_with(Arc::new(driver))
    }
}

/// A process that ends itself at each stage of each kind, and its successor: every task is done once, and reported.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_stage_of_what_is_done_in_a_cell_it_is_done_once() {
    let (scene, settings) = scene().await;
    let _groups = Groups(settings.key.clone());
    let mut agent = start_real(&scene.machine, "");
    let made = scene.made().await;
    let mut told = Vec::new();
    let kinds = ["cell_files", "cell_service", "cell_command", "cell_probe"];
    let stages = ["begun", "journalled", "done", "reporting"];
    let points = kinds.iter().flat_map(|kind| stages.iter().map(move |stage| format!("{kind}:{stage}")));
    // Read-only tasks are not journalled.
    for point in points.filter(|point| point != "cell_probe:journalled") {
        let counted = format!("echo {point} >> /data/count; grep -c {point} /data/count");
        let task = match point.split(':').next().unwrap() {
            "cell_files" => scene.act(json!({"files": {"write": [{"path": "/data/word", "text": &point}]}})),
            "cell_service" => scene.act(json!({"service": {"name": "later", "action": "restart"}})),
            "cell_command" => scene.command(busybox(&counted)),
            _ => scene.probe(busybox("cat /data/word")),
        };
        agent.kill().await.unwrap();
        agent = start_real(&scene.machine, &point);
        scene.server.script(|state| {
            state.redeliver = vec![task.clone()];
            state.work.push_back(vec![task.clone()]);
        });
        let died = tokio::time::timeout(Duration::from_secs(20), agent.wait()).await;
        agent = start_real(&scene.machine, "");
        let is_it = |report: &&Report| report.task_id == task.id;
        scene.server.until(&point, |state| state.reports.iter().any(|report| is_it(&report))).await;
        scene.server.script(|state| state.redeliver.clear());
        let report = scene.server.reports().iter().find(is_it).cloned().unwrap();
        told.push((point, died.is_ok_and(|ended| !ended.unwrap().success()), report));
    }
    let starts = scene.told(scene.command(busybox("cat /data/starts"))).await;
    let ended = scene.ended().await;
    agent.kill().await.unwrap();

    assert!(made.iter().chain(&ended).all(|report| report.ending == Ending::Done), "{made:?} {ended:?}");
    for (point, died, report) in &told {
        assert!(*died, "nothing came to {point}");
        assert_eq!(report.ending, Ending::Done, "{point}: {report:?}");
        match point.split(':').next().unwrap() {
            "cell_command" => assert_eq!(stdout(report), "1\n", "{point}"),
            "cell_probe" => assert_eq!(stdout(report), "cell_files:reporting", "{point}"),
            _ => assert!(report.findings.cell.as_ref().unwrap().present, "{point}"),
        }
    }
    assert_eq!(stdout(&starts), "start\n".repeat(4), "each restart was one");
}

fn stdout(report: &Report) -> &str {
    report.findings.ran.as_ref().map_or("(nothing ran)", |ran| &ran.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_services_commands_and_checks_of_a_real_cell() {
    let (scene, settings) = scene().await;
    let _groups = Groups(settings.key.clone());
    let running = scene.start(&settings);
    let rootfs = scene.machine.path().join(format!("driver/images/sha256-{}/rootfs", &scene.image[7..]));

    // All actions come before all assertions, so that a failure leaves nothing on the machine.
    let made = scene.made().await;
    let files = json!({"files": {
        "write": [{"path": "/data/word", "text": "true"}],
        "secrets": [{"secret": "db", "file": "key"}],
    }});
    let written = scene.told(scene.act(files)).await;
    let secret = scene.told(scene.command(busybox("cat /run/muster/secrets/key"))).await;
    let started = scene.told(scene.act(json!({"service": {"name": "later", "action": "start"}}))).await;

    // An agent is killed during a command: its successor finds the command, which runs once.
    let long = scene.command(busybox("echo x >> /data/count; sleep 3; cat /data/count"));
    scene.server.script(|state| state.work.push_back(vec![long.clone()]));
    let began = Instant::now();
    let meanwhile = scene.told(scene.probe(busybox("cat /data/word"))).await;
    let quick = began.elapsed();
    let unended = scene.server.reports().iter().all(|report| report.task_id != long.id);
    kill(running).await;
    let running = scene.start(&settings);
    let again = scene.told(long.clone()).await;
    // A task delivered again before its report was accepted is the same one, and has no second report.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let repeated = scene.told(long.clone()).await;

    // Attack: the cell's only program is overwritten, by a task and not even by a process of the cell.
    let kept = scene.told(scene.command(busybox("mkdir /kept; cp /bin/busybox /kept/busybox"))).await;
    let forge = json!({"files": {"write": [{"path": "/bin/busybox", "text": "#!/kept/busybox sh\necho forged\n", "mode": "755"}]}});
    let forged = scene.told(scene.act(forge)).await;
    let deceived = scene.told(scene.command(busybox("cat /data/word"))).await;
    let undeceived = scene.told(scene.probe(busybox("cat /data/word"))).await;

    let other: AllocationId = scene.machine.env.id();
    let elsewhere = scene.command(busybox("true"));
    let elsewhere = changed(&elsewhere, "/act/allocation/allocation_id", other.to_string());
    let elsewhere = scene.told(elsewhere).await;
    let older = changed(&scene.command(busybox("true")), "/act/cell/incarnation", 2);
    let older = scene.told(older).await;

    // Attack: the image on the node's disk was modified.
    let planted = std::fs::write(rootfs.join("bin/planted"), b"#!");
    let damaged = scene.told(scene.probe(busybox("cat /data/word"))).await;
    let stopped = scene.told(scene.act(json!({"service": {"name": "later", "action": "stop"}}))).await;
    let looked = scene.told(scene.about(TaskKind::CellInspect)).await;
    let ended = scene.ended().await;
    let late = scene.told(scene.probe(busybox("true"))).await;
    kill(running).await;

    for report in made.iter().chain(&ended).chain([
        &written,
        &secret,
        &started,
        &meanwhile,
        &again,
        &repeated,
        &kept,
        &forged,
        &deceived,
        &undeceived,
        &stopped,
    ]) {
        assert_eq!(report.ending, Ending::Done, "{report:?}");
    }
    assert_eq!(stdout(&secret), CANARY);
    let state = |report: &Report| report.findings.cell.as_ref().unwrap().services[0].state;
    assert_eq!(
        (state(&made[1]), state(&started), state(&looked)),
        (ServiceState::Idle, ServiceState::Running, ServiceState::Idle)
    );
    assert_eq!(stdout(&meanwhile), "true");
    assert!(unended && quick < Duration::from_secs(3), "{quick:?}");
    assert_eq!((stdout(&again), stdout(&repeated)), ("x\n", "x\n"), "{again:?}");
    assert_eq!((stdout(&deceived), stdout(&undeceived)), ("forged\n", "true"));
    assert!(refusal(&elsewhere).1.contains("does not exist"), "{elsewhere:?}");
    assert!(refusal(&older).1.contains("stale incarnation"), "{older:?}");
    planted.unwrap();
    let (refused, why) = refusal(&damaged);
    assert_eq!(refused, Some(Refusal::ArtifactDamaged), "{why}");
    assert!(why.contains("/bin/planted was added"), "{why}");
    assert!(late.ending == Ending::Failed, "{late:?}");
}
