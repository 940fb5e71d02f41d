//! A real node on a small disk: an image that does not fit is refused and leaves nothing, and an unused one is evicted.
//! Needs root.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use muster_agent::{Trust, real};
use muster_ids::{AllocationId, CellId, ProjectId, TenantId, TypedId as _};
use muster_image::Digest;
use muster_wire::task::{Ending, Refusal, Task, TaskKind};
use serde_json::json;

use crate::machine::{Machine, changed, created, kill, of_kind};
use crate::pull::{create, names, prepare, pulled, refusal, reported, trust};
use crate::real::{Groups, layer, settings_of};
use crate::registry::Registry;
use crate::server::Server;

const MIB: u64 = 1 << 20;
/// Space that stays free on every node.
const RESERVE: u64 = 256 * MIB;

/// A file system of limited size, unmounted at the end of the test in every case.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        let options = ["-t", "tmpfs", "-o", "size=512m", "tmpfs"];
        let mount = Command::new("mount").args(options).arg(disk.path()).status();
        assert!(mount.unwrap().success(), "run the tests of real cells as root");
        disk
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.0.path()).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Fills the disk until `bytes` are left.
    fn leave(&self, bytes: u64) {
        let filler = vec![0; usize::try_from(self.free() - bytes).unwrap()];
        std::fs::write(self.0.path().join(format!("filler-{bytes}")), filler).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// An image with busybox and `mib` MiB of zeros, which compresses to almost nothing.
fn image_of(registry: &mut Registry, name: &str, mib: u64) -> String {
    let mut plain = layer();
    plain.truncate(plain.len() - 1024);
    let mut archive = tar::Builder::new(plain);
    let mut header = tar::Header::new_gnu();
    header.set_size(mib * MIB);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    let zeros = vec![0; usize::try_from(mib * MIB).unwrap()];
    archive.append_data(&mut header, name, zeros.as_slice()).unwrap();
    let plain = archive.into_inner().unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&plain).unwrap();
    let mut layer = registry.blob(packed.finish().unwrap());
    layer["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar+gzip");
    let config = json!({"architecture": "amd64", "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&plain).to_string()]}});
    let config = registry.blob(config.to_string());
    let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [layer]});
    registry.document(&manifest)["digest"].as_str().unwrap().to_owned()
}

fn unpacked(machine: &Path, image: &str) -> bool {
    machine.join(format!("driver/images/sha256-{}", &image[7..])).exists()
}

#[tokio::test]
async fn an_image_that_does_not_fit_is_refused_and_unused_ones_give_way() {
    let disk = SmallDisk::new();
    let server = Server::start().await;
    let machine = Machine::at(&disk.path());
    machine.join(&server, Trust::fingerprint(&server.ca_sha256).unwrap(), false).await.unwrap();
    let a: AllocationId = machine.env.id();
    let (mut old, mut new, mut bomb) = (String::new(), String::new(), String::new());
    server.script(|state| {
        old = image_of(&mut state.registry, "old", 30);
        new = image_of(&mut state.registry, "new", 30);
        bomb = image_of(&mut state.registry, "bomb", 200);
    });
    let of = |kind, cell: CellId, image: &str| {
        let mut task: Task = create(&machine, a, cell, image, trust(false));
        // No budget limits its images.
        created(&mut task).exclusive = true;
        of_kind(kind, task)
    };
    let settings = settings_of(&machine, std::process::id().wrapping_add(50_000));
    let _groups = Groups(settings.key.clone());
    let driver = real::Driver::open(settings, &machine.env).unwrap();
    let running = machine.start_with(Arc::new(driver));
    let cells: [CellId; 3] = [(); 3].map(|()| machine.env.id());

    // All actions come before all assertions, so that a failure leaves nothing on the machine.
    let first = reported(&server, vec![prepare(&machine, a), of(TaskKind::CellCreate, cells[0], &old)]).await;
    disk.leave(RESERVE + 12 * MIB);
    let before = disk.free();
    let too_large = reported(&server, vec![of(TaskKind::CellCreate, cells[1], &bomb)]).await;
    let in_use = reported(&server, vec![of(TaskKind::CellCreate, cells[1], &new)]).await;
    let (after, layers) = (disk.free(), names(pulled(&machine).join("partial")));
    let large_layers = names(pulled(&machine).join("blobs/sha256")).len();
    let still_runs = reported(&server, vec![of(TaskKind::CellInspect, cells[0], &old)]).await;
    let old_stays = unpacked(machine.path(), &old);
    let destroy = of(TaskKind::CellDestroy, cells[0], &old);
    let gone = reported(&server, vec![destroy]).await;
    let bombed_again = reported(&server, vec![of(TaskKind::CellCreate, cells[1], &bomb)]).await;
    let unharmed = unpacked(machine.path(), &old);
    let fits = reported(&server, vec![of(TaskKind::CellCreate, cells[2], &new)]).await;
    let evicted = !unpacked(machine.path(), &old) && unpacked(machine.path(), &new);

    // The disk of an allocation has 64 MiB, and images only borrow offered space.
    let destroy = of(TaskKind::CellDestroy, cells[2], &new);
    let gone_too = reported(&server, vec![destroy]).await;
    disk.leave(50 * MIB);
    let b: AllocationId = machine.env.id();
    let with_disk = reported(&server, vec![prepare(&machine, b)]).await;
    let gave_way = !unpacked(machine.path(), &new);

    let ending = |kind, allocation| of_kind(kind, prepare(&machine, allocation));
    let mut ended = Vec::new();
    for allocation in [a, b] {
        let both = vec![ending(TaskKind::Destroy, allocation), ending(TaskKind::Wipe, allocation)];
        ended.extend(reported(&server, both).await);
    }
    kill(running).await;

    for reports in [&first, &still_runs, &gone, &fits, &gone_too, &with_disk, &ended] {
        assert!(reports.iter().all(|report| report.ending == Ending::Done), "{reports:?}");
    }
    for refused in [&too_large[0], &in_use[0], &bombed_again[0]] {
        let (word, why) = refusal(refused);
        assert_eq!(word, Some(Refusal::ArtifactPull), "{why}");
        assert!(why.contains("no space for sha256:") && why.contains("256 MB of them are reserved"), "{why}");
    }
    assert!(before.abs_diff(after) < MIB, "its space is back: {before} {after}");
    assert_eq!(layers, Vec::<String>::new());
    // A manifest and a configuration of each image.
    assert_eq!(large_layers, 6, "layers of an image without room go");
    assert!(old_stays && still_runs[0].findings.cell.as_ref().unwrap().present, "an image in use stays");
    assert!(unharmed, "an image that can never fit costs the others nothing");
    assert!(evicted, "an unused one gave way");
    assert!(gave_way, "an unused one gave way to the disk of an allocation");
}

/// Attack: a project starts cells from ever more images, until the node has no room for those of another.
#[tokio::test]
async fn one_project_fills_its_share_of_a_node_and_the_image_of_another_still_fits() {
    let disk = SmallDisk::new();
    let server = Server::start().await;
    let machine = Machine::at(&disk.path());
    machine.join(&server, Trust::fingerprint(&server.ca_sha256).unwrap(), false).await.unwrap();
    let allocations: [AllocationId; 2] = [(); 2].map(|()| machine.env.id());
    let projects: [ProjectId; 2] = [(); 2].map(|()| machine.env.id());
    let mut images = Vec::new();
    server.script(|state| {
        images.extend((0..5).map(|number| image_of(&mut state.registry, &format!("file-{number}"), 26)));
    });
    let of_project = |project: usize, task: Task| {
        // Each project has a tenant of its own.
        let tenant = TenantId::from_uuid(projects[project].uuid());
        let task = changed(&task, "/act/allocation/tenant_id", tenant.to_string());
        changed(&task, "/act/allocation/project_id", projects[project].to_string())
    };
    let create = |project: usize, cell: CellId, image: &str| {
        of_project(project, create(&machine, allocations[project], cell, image, trust(false)))
    };
    let mut settings = settings_of(&machine, std::process::id().wrapping_add(60_000));
    settings.project_images_percent = 50;
    let _groups = Groups(settings.key.clone());
    let driver = real::Driver::open(settings, &machine.env).unwrap();
    let running = machine.start_with(Arc::new(driver));
    let cells: Vec<CellId> = (0..6).map(|_| machine.env.id()).collect();

    // All actions come before all assertions, so that a failure leaves nothing on the machine. With two disks of 64 MiB and the
    // reserve, 128 MiB are left for images, half of them for one project.
    let place = |project: usize| of_project(project, prepare(&machine, allocations[project]));
    let placed = reported(&server, vec![place(0), place(1)]).await;
    let mut greedy = Vec::new();
    for (cell, image) in cells.iter().zip(&images[..4]) {
        greedy.extend(reported(&server, vec![create(0, *cell, image)]).await);
    }
    let modest = reported(&server, vec![create(1, cells[4], &images[4])]).await;
    let in_common = reported(&server, vec![create(1, cells[5], &images[0])]).await;
    let destroy = of_kind(TaskKind::CellDestroy, create(0, cells[1], &images[1]));
    let gone = reported(&server, vec![destroy]).await;
    let again = reported(&server, vec![create(0, cells[2], &images[2])]).await;
    let gave_way = !unpacked(machine.path(), &images[1]);
    let mut ended = Vec::new();
    for project in 0..2 {
        let ending = |kind| of_kind(kind, place(project));
        ended.extend(reported(&server, vec![ending(TaskKind::Destroy), ending(TaskKind::Wipe)]).await);
    }
    kill(running).await;

    for reports in [&placed[..], &greedy[..2], &modest, &in_common, &gone, &again, &ended] {
        assert!(reports.iter().all(|report| report.ending == Ending::Done), "{reports:?}");
    }
    for refused in &greedy[2..] {
        let (word, why) = refusal(refused);
        assert_eq!(word, Some(Refusal::ArtifactPull), "{why}");
        assert!(why.contains("budget for images") && why.contains("--project-images-percent"), "{why}");
    }
    assert!(gave_way, "an image that its project no longer uses gave way");
}

/// Attack: a tenant runs cells in several projects, each within its budget, until other tenants have no room.
#[tokio::test]
async fn the_projects_of_one_tenant_leave_room_for_the_image_of_another_tenant() {
    let disk = SmallDisk::new();
    let server = Server::start().await;
    let machine = Machine::at(&disk.path());
    machine.join(&server, Trust::fingerprint(&server.ca_sha256).unwrap(), false).await.unwrap();
    let tenants: [TenantId; 2] = [(); 2].map(|()| machine.env.id());
    let owners: [(AllocationId, ProjectId, TenantId); 3] =
        [tenants[0], tenants[0], tenants[1]].map(|tenant| (machine.env.id(), machine.env.id(), tenant));
    let mut images = Vec::new();
    server.script(|state| {
        images.extend((0..3).map(|number| image_of(&mut state.registry, &format!("file-{number}"), 26)));
    });
    let owned = |owner: usize, task: Task| {
        let task = changed(&task, "/act/allocation/project_id", owners[owner].1.to_string());
        changed(&task, "/act/allocation/tenant_id", owners[owner].2.to_string())
    };
    let mut settings = settings_of(&machine, std::process::id().wrapping_add(70_000));
    settings.project_images_percent = 50;
    let _groups = Groups(settings.key.clone());
    let driver = real::Driver::open(settings, &machine.env).unwrap();
    let running = machine.start_with(Arc::new(driver));

    // With three disks of 64 MiB and the reserve, 64 MiB are left: 32 for a project, 48 for a tenant.
    let place = |owner: usize| owned(owner, prepare(&machine, owners[owner].0));
    let placed = reported(&server, (0..3).map(place).collect()).await;
    let mut made = Vec::new();
    for (owner, image) in images.iter().enumerate() {
        let cell = create(&machine, owners[owner].0, machine.env.id(), image, trust(false));
        made.extend(reported(&server, vec![owned(owner, cell)]).await);
    }
    let mut ended = Vec::new();
    for owner in 0..3 {
        let ending = |kind| of_kind(kind, place(owner));
        ended.extend(reported(&server, vec![ending(TaskKind::Destroy), ending(TaskKind::Wipe)]).await);
    }
    kill(running).await;

    for report in placed.iter().chain(&ended).chain([&made[0], &made[2]]) {
        assert_eq!(report.ending, Ending::Done, "{report:?}");
    }
    let (word, why) = refusal(&made[1]);
    assert_eq!(word, Some(Refusal::ArtifactPull), "{why}");
    assert!(why.contains("budget for images of its project or of its tenant"), "{why}");
}
