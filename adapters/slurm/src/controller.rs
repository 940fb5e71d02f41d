//! The controller: slurmctld, and the accounting beside it.

use muster_adapter_kit::types::{CommandOrder, File, SnapshotMember};
use muster_adapter_kit::{Done, Failure, Outcome, StepCx, command, file};
use serde_json::json;

use crate::config::Config;
use crate::places::{
    ACCOUNTING_SERVICE, ACCOUNTS, CONTROLLER_SERVICE, DATABASE_SERVICE, SCONTROL, SLURM, SQUEUE, WORKER,
};
use crate::slurm::{self, SOON, good, timed};
use crate::{gres, key, render};

/// Starts the daemons from the database up: slurmctld's first start needs the accounting, and associations that are added to the
/// accounting while slurmctld is down may be lost to it.
pub(crate) async fn join(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    let config = slurm::config(cx)?;
    cx.progress(10, "writing the configuration").await;
    let key = key::of_controller(cx).await?;
    slurm::write(cx, member, &config, &key, files(cx, member, &config)?).await?;
    cx.progress(20, "preparing the database").await;
    let daemons = async {
        let prepared = slurm::prepare(cx, member).await?;
        cx.progress(40, "starting the database, the accounting and the controller").await;
        // Which waits for which is in the manifest; each starts when those are ready that it needs.
        futures::try_join!(
            cx.start_service(member, DATABASE_SERVICE),
            cx.start_service(member, ACCOUNTING_SERVICE),
            cx.start_service(member, CONTROLLER_SERVICE),
        )?;
        Ok(prepared)
    };
    let (prepared, ()) = futures::try_join!(daemons, slurm::start_munge(cx, member, &key))?;
    cx.progress(90, "creating the accounts").await;
    accounts(cx, member).await?;
    // Completes a key change that the previous incarnation did not finish. The first incarnation has none.
    if member.incarnation > 1 {
        key::release(cx, member).await?;
    }
    let mut done = Done::saying(format!("{} runs {}", member.name, prepared.version));
    done.detail.insert("version".to_owned(), json!(prepared.version));
    key::noted(&mut done.detail, member, &key);
    done.topology_mode = Some(config.topology.as_str().to_owned());
    Ok(done)
}

fn files(cx: &StepCx, member: &SnapshotMember, config: &Config) -> Result<Vec<File>, Failure> {
    let cluster = slurm::cluster(cx, member)?;
    let lines = known_gres(cx, config);
    let private = File {
        mode: Some("600".to_owned()),
        uid: Some(SLURM),
        gid: Some(SLURM),
        ..file("/etc/slurm/slurmdbd.conf", render::slurmdbd_conf(&cluster))
    };
    let all: Vec<String> = lines.iter().map(|(_, line)| line.clone()).collect();
    let mut files = vec![
        file("/etc/slurm/slurm.conf", render::slurm_conf(&cluster, config)),
        file("/etc/slurm/cgroup.conf", render::cgroup_conf()),
        file("/etc/slurm/gres.conf", gres::conf(&all)),
        file("/etc/slurm/accounts", render::accounts(config)),
        file("/etc/slurm/people-account", format!("{}\n", config.people_account)),
        private,
    ];
    files.extend(
        lines.into_iter().map(|(node, line)| file(format!("/etc/slurm/gres.d/{node}"), format!("{line}\n"))),
    );
    Ok(files)
}

/// The GPUs of the workers that were there before this controller's cell was.
fn known_gres(cx: &StepCx, config: &Config) -> Vec<(String, String)> {
    let devices = |worker: &SnapshotMember| -> Vec<String> {
        let said = worker.adapter_detail.get("gpus").and_then(|gpus| gpus.as_array());
        said.into_iter().flatten().filter_map(|gpu| gpu.as_str().map(str::to_owned)).collect()
    };
    cx.members_of(WORKER)
        .map(|worker| (worker.name.clone(), devices(worker)))
        .filter(|(_, devices)| !devices.is_empty())
        .map(|(name, devices)| {
            let line = gres::line(&name, &devices, config.gpu_type.as_deref());
            (name, line)
        })
        .collect()
}

/// Adds the accounts, and verifies that slurmctld itself would accept a job of each user.
pub(crate) async fn accounts(cx: &StepCx, controller: &SnapshotMember) -> Result<(), Failure> {
    let order = CommandOrder { timeout_seconds: Some(300), ..command([ACCOUNTS]) };
    good(cx.run_anew(controller, order).await?, "the accounts cannot be used").map(drop)
}

/// Starts no new job and waits for transitions to finish. Running jobs continue: they belong to the workers, and a controller that
/// comes back with its state finds them.
pub(crate) async fn drain(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    set_partitions(cx, member, "DOWN").await?;
    let ran = cx.look(member, timed([SQUEUE, "--noheader", "--states=CG,CF", "--format=%i"])).await?;
    let busy = good(ran, "Slurm did not report the running jobs")?;
    match busy.trim() {
        "" => Ok(Done::saying("job starts are paused, and no job is ending")),
        jobs => Err(Failure::retry(
            SOON,
            "jobs_complete",
            format!("these jobs are starting or ending: {}", jobs.replace('\n', ", ")),
        )),
    }
}

pub(crate) async fn resume(cx: &StepCx) -> Outcome {
    set_partitions(cx, cx.member()?, "UP").await?;
    Ok(Done::saying("job starts are resumed"))
}

async fn set_partitions(cx: &StepCx, member: &SnapshotMember, state: &str) -> Result<(), Failure> {
    for partition in slurm::config(cx)?.partitions {
        let name = format!("partitionname={}", partition.name);
        let order = timed([SCONTROL.to_owned(), "update".to_owned(), name, format!("state={state}")]);
        good(
            cx.run_anew(member, order).await?,
            &format!("the partition {} could not be set {state}", partition.name),
        )?;
    }
    Ok(())
}
