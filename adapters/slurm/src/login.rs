//! A login cell: a place for people with the cluster's commands and users, and no job of its own.

use muster_adapter_kit::{Done, Outcome, StepCx, file};
use serde_json::json;

use crate::places::MUNGE_SERVICE;
use crate::{render, slurm};

pub(crate) async fn join(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    let controller = slurm::controller(cx)?;
    let config = slurm::config(cx)?;
    let cluster = slurm::cluster(cx, controller)?;
    let files = vec![file("/etc/slurm/slurm.conf", render::slurm_conf(&cluster, &config))];
    slurm::write(cx, member, &config, files).await?;
    let prepared = slurm::prepare(cx, member).await?;
    cx.start_service(member, MUNGE_SERVICE).await?;
    let mut done = Done::saying(format!("{} has the commands of {}", member.name, prepared.version));
    done.detail.insert("version".to_owned(), json!(prepared.version));
    Ok(done)
}
