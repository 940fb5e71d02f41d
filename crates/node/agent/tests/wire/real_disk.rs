//! A real cell on a disk with an error. As root, because only root can make cells.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_agent::real;
use muster_ids::{AllocationId, CellId};
use muster_wire::task::{Ending, TaskKind};

use crate::machine::{Machine, kill, of_kind};
use crate::pull::{create, prepare, reported, trust};
use crate::real::{Groups, layer, settings_of};
use crate::server::{Server, State};

/// Has the kernel make the disk of an allocation read-only, as it does after an error.
fn fail_disk(allocation: AllocationId) -> std::io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let end = format!("/disks/{allocation}");
    let mount = mounts.lines().find(|line| line.split(' ').nth(4).is_some_and(|at| at.ends_with(&end)));
    let device = mount.and_then(|line| line.rsplit_once("/dev/")?.1.split(' ').next());
    let device = device.ok_or_else(|| std::io::Error::other("the disk is not mounted"))?;
    fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a test's own error")
}

/// The message of the last observation of a living cell; `None` if there is no such observation.
fn last_message(state: &State, cell: CellId) -> Option<Option<String>> {
    let of_cell = |one: &&muster_wire::wire::CellObservation| one.cell.cell_id == cell && one.alive;
    state.observed.iter().rev().find(of_cell).map(|one| one.message.clone())
}

#[tokio::test]
async fn a_cell_on_a_read_only_disk_is_observed_with_a_message_and_no_other_cell_is() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let (failing, sound): (AllocationId, AllocationId) = (machine.env.id(), machine.env.id());
    let (impaired, unharmed): (CellId, CellId) = (machine.env.id(), machine.env.id());
    let mut image = String::new();
    server.script(|state| {
        let layer = state.registry.blob(layer());
        image = state.registry.image(&[layer]);
    });
    let settings = settings_of(&machine, std::process::id().wrapping_add(25_000));
    let _groups = Groups(settings.key.clone());
    let driver = real::Driver::open(settings, &machine.env).unwrap();
    let running = machine.start_with(Arc::new(driver));
    let message = |cell| last_message(&server.state.lock(), cell);
    let wait = async |ready: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !ready() && began.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };

    // Assertions come last: a failed one must leave nothing on the machine.
    let mut reports = Vec::new();
    for (allocation, cell) in [(failing, impaired), (sound, unharmed)] {
        let tasks =
            vec![prepare(&machine, allocation), create(&machine, allocation, cell, &image, trust(false))];
        reports.extend(reported(&server, tasks).await);
    }
    wait(&|| message(impaired).is_some() && message(unharmed).is_some()).await;
    let before = [message(impaired), message(unharmed)];
    let failed = fail_disk(failing);
    wait(&|| message(impaired).flatten().is_some()).await;
    let after = [message(impaired), message(unharmed)];
    for allocation in [failing, sound] {
        let ending = |kind| of_kind(kind, prepare(&machine, allocation));
        reports.extend(reported(&server, vec![ending(TaskKind::Destroy), ending(TaskKind::Wipe)]).await);
    }
    kill(running).await;

    assert!(reports.iter().all(|report| report.ending == Ending::Done), "{reports:?}");
    failed.unwrap();
    assert_eq!(before, [Some(None), Some(None)]);
    let read_only = "an error made the disk of its allocation read-only: restart the allocation";
    assert_eq!(after, [Some(Some(read_only.to_owned())), Some(None)]);
}
