//! A login cell: a place for people with the cluster's commands and users, reached by SSH, and no job of its own.

use muster_adapter_kit::{Done, Outcome, StepCx, file};
use serde_json::json;

use crate::places::SSH_SERVICE;
use crate::{key, render, slurm};

pub(crate) async fn join(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    let controller = slurm::controller(cx)?;
    let config = slurm::config(cx)?;
    let cluster = slurm::cluster(cx, controller)?;
    let files = vec![file("/etc/slurm/slurm.conf", render::slurm_conf(&cluster, &config))];
    let key = key::of_cluster(cx, controller).await?;
    slurm::write(cx, member, &config, &key, files).await?;
    let prepared = slurm::prepare(cx, member).await?;
    slurm::start_munge(cx, member, &key).await?;
    cx.start_service(member, SSH_SERVICE).await?;
    let mut done = Done::saying(format!("{} has the commands of {}", member.name, prepared.version));
    done.detail.insert("version".to_owned(), json!(prepared.version));
    key::noted(&mut done.detail, member, &key);
    Ok(done)
}
