//! A worker: slurmd as a dynamic node, known to the cluster by the member's name.

use std::time::Duration;

use muster_adapter_kit::types::{CommandOrder, MemberState, SnapshotMember};
use muster_adapter_kit::{Done, Failure, Outcome, StepCx, command, file};
use serde_json::json;

use crate::node::{Down, Drain, Node, reason};
use crate::places::{AWAIT_DRAINED, FORGET, SCONTROL, WORKER_SERVICE};
use crate::slurm::{self, SOON, good, timed};
use crate::{gres, key, render};

const GRES: &str = "/usr/lib/muster-slurm/gres";
/// How long one look at a drain waits for its end.
const DRAIN_LOOK: i32 = 15;
/// How long a slurmd that was restarted has to register.
const REGISTRATION: Duration = Duration::from_secs(30);
/// When to look again at what a person has to decide.
const PERSON: Duration = Duration::from_secs(10);

pub(crate) async fn join(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    let controller = slurm::controller(cx)?;
    let config = slurm::config(cx)?;
    let key = key::of_cluster(cx, controller).await?;
    cx.progress(20, "preparing the cell").await;
    let node = |gres: Option<&str>| {
        file("/etc/slurm/worker/node", render::node(member.cpus, member.memory_mb, gres, member.incarnation))
    };
    let mut files = vec![file("/etc/slurm/worker/server", format!("{}:6817\n", slurm::address(controller)?))];
    // Only the cell can list its devices; a member without GPUs has none.
    files.extend((member.gpus == 0).then(|| node(None)));
    // Independent tasks run in parallel to shorten the join.
    let ready = async {
        slurm::write(cx, member, &config, &key, files).await?;
        let (prepared, munge) =
            futures::join!(slurm::prepare(cx, member), slurm::start_munge(cx, member, &key));
        munge.and(prepared)
    };
    let (forgotten, prepared) = futures::join!(forget_former(cx, controller, member), ready);
    let prepared = forgotten.and(prepared)?;
    let kind = config.gpu_type.as_deref();
    let gres = gres::gres(&prepared.devices, kind);
    if gres.is_some() {
        let line = gres::line(&member.name, &prepared.devices, kind);
        let said = cx.run_anew(controller, timed([GRES, member.name.as_str(), line.as_str()])).await?;
        good(said, "the controller does not accept the worker's GPUs")?;
    }
    if gres.is_some() || member.gpus != 0 {
        cx.write_files(member, vec![node(gres.as_deref())]).await?;
    }
    cx.progress(60, "starting slurmd").await;
    cx.start_service(member, WORKER_SERVICE).await?;
    let mut done = Done::saying(format!("{} runs {}", member.name, prepared.version));
    done.detail.insert("version".to_owned(), json!(prepared.version));
    done.detail.insert("gpus".to_owned(), json!(prepared.devices));
    key::noted(&mut done.detail, member, &key);
    Ok(done)
}

/// A record of an earlier cell of this name would keep its address, its size and its jobs: it goes before the new one comes. That
/// cell is gone by now, so whatever ran in it can be started elsewhere.
async fn forget_former(
    cx: &StepCx,
    controller: &SnapshotMember,
    member: &SnapshotMember,
) -> Result<(), Failure> {
    let Some(node) = slurm::node(cx, controller, &member.name).await? else { return Ok(()) };
    if node.features.contains(&render::feature(member.incarnation)) {
        return Ok(());
    }
    // With the record the drain would go too, and that is not ours to clear.
    if let Drain::Theirs(why) = node.drain() {
        return Err(drained_by_another(&node, &why));
    }
    forget(cx, controller, &node.name).await
}

/// Deletes the record of a node and its GPUs. The caller ensures that nothing of the cell runs.
pub(crate) async fn forget(cx: &StepCx, controller: &SnapshotMember, name: &str) -> Result<(), Failure> {
    let order = CommandOrder {
        timeout_seconds: Some(90),
        ..command([FORGET.to_owned(), name.to_owned(), reason(&slurm::operation(cx))])
    };
    good(cx.run_anew(controller, order).await?, &format!("Slurm does not remove {name}")).map(drop)
}

/// Stops new work and waits for running jobs: nothing is ever killed here.
pub(crate) async fn drain(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    let controller = slurm::controller_if_alive(cx)?;
    let mut words = vec![AWAIT_DRAINED.to_owned(), member.name.clone(), DRAIN_LOOK.to_string()];
    let operation = slurm::operation(cx);
    let node = registered(cx, controller, member).await?;
    // Only the first look drains it: a resume by a person meanwhile is not overruled.
    words.push(node.drain_reason(&operation));
    loop {
        let order = CommandOrder { timeout_seconds: Some(DRAIN_LOOK + 30), ..command(words.clone()) };
        words.truncate(3);
        let said = good(
            cx.run_anew(controller, order).await?,
            &format!("Slurm did not report the state of {}", member.name),
        )?;
        let mut lines = said.lines();
        let Some(node) = lines.next().and_then(Node::parse) else {
            return Err(Failure::retry(SOON, "slurm_refused", format!("this is not a node: {said}")));
        };
        let jobs: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
        if node.is_drained() && jobs.is_empty() {
            return Ok(drained(&node));
        }
        if node.drain() == Drain::None {
            return Err(Failure::retry(
                SOON,
                "undrained",
                format!("{} was resumed outside the platform while it was draining", node.name),
            ));
        }
        cx.progress(
            50,
            &format!("{} is {}; {} job(s) on it: {}", node.name, node.state(), jobs.len(), jobs.join(", ")),
        )
        .await;
    }
}

fn drained(node: &Node) -> Done {
    Done::saying(match node.drain() {
        Drain::Theirs(why) => {
            format!("{} is {}; drained outside the platform: {why}", node.name, node.state())
        }
        Drain::Ours | Drain::None => format!("{} is {}", node.name, node.state()),
    })
}

pub(crate) async fn resume(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    let controller = slurm::controller(cx)?;
    let node = registered(cx, controller, member).await?;
    match (node.drain(), node.down()) {
        (Drain::Theirs(why), _) => Err(Failure { retry_after: None, ..drained_by_another(&node, &why) }),
        (_, Down::Theirs(why)) => Err(Failure { retry_after: None, ..set_down_by_another(&node, &why) }),
        (_, Down::Silence) => {
            return_to_service(cx, controller, &node).await?;
            Ok(Done::saying(format!("{} was {}, and is returned to service", node.name, node.state())))
        }
        (Drain::None, Down::No) => Ok(Done::saying(format!("{} is {}", node.name, node.state()))),
        (Drain::Ours, Down::No) => {
            slurm::update(cx, controller, &node.name, &["state=undrain".to_owned()]).await?;
            Ok(Done::saying(format!("{} accepts jobs again", node.name)))
        }
    }
}

/// Clears DOWN and a drain of ours. slurmctld then asks slurmd at once, gives the node no job before it answers, and sets it down again
/// if it does not.
async fn return_to_service(cx: &StepCx, controller: &SnapshotMember, node: &Node) -> Result<(), Failure> {
    slurm::update(cx, controller, &node.name, &["state=resume".to_owned()]).await
}

/// Returns an active worker to service that Slurm holds down for its silence, once its slurmd answers. Reports whether it did.
/// `ReturnToService` alone leaves a dynamic node down for minutes, and for ever where a drain replaced slurmctld's reason.
pub(crate) async fn revive(
    cx: &StepCx,
    controller: &SnapshotMember,
    worker: &SnapshotMember,
    node: &Node,
) -> Result<bool, Failure> {
    let expected = worker.state == MemberState::Active && !worker.unreachable && worker.fenced != Some(true);
    if !expected || node.down() != Down::Silence || node.drain() != Drain::None {
        return Ok(false);
    }
    // Asked in its own cell: a slurmd that hangs, or does not run, would only be set down again.
    match cx.look(worker, timed([SCONTROL, "show", "slurmd"])).await {
        Ok(ran) if ran.exit == 0 && !ran.timed_out => match return_to_service(cx, controller, node).await {
            Ok(()) => Ok(true),
            // It may be drained at this moment, and that would be cleared too: the next look is for it.
            Err(why) if why.is_member_step_running() => Ok(false),
            Err(why) => Err(why),
        },
        _ => Ok(false),
    }
}

/// Returns the record of a worker. A controller that died before it saved its state comes back without it, and slurmd registers only
/// when it starts, so slurmd is restarted; jobs that ran on it went with the record.
async fn registered(
    cx: &StepCx,
    controller: &SnapshotMember,
    worker: &SnapshotMember,
) -> Result<Node, Failure> {
    if let Some(node) = slurm::node(cx, controller, &worker.name).await? {
        return Ok(node);
    }
    cx.restart_service_anew(worker, WORKER_SERVICE).await?;
    // A retry restarts it again, which a slow registration would not survive: it has this long.
    for _ in 0..REGISTRATION.as_secs() {
        if let Some(node) = slurm::node(cx, controller, &worker.name).await? {
            return Ok(node);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let why =
        format!("Slurm had no record of {}: slurmd was restarted, and has not registered yet", worker.name);
    Err(Failure::retry(SOON, "unknown_node", why))
}

/// Restarts slurmd of a worker of which Slurm has no record, outside a step of its own. A drained worker stays without one: it would
/// register undrained, and its resume registers it. Reports whether it did.
pub(crate) async fn register_again(cx: &StepCx, worker: &SnapshotMember) -> Result<bool, Failure> {
    // One that joins may have registered with the controller that died; while its step is open, the platform refuses this.
    let expected = matches!(worker.state, MemberState::Active | MemberState::Joining);
    if !expected || worker.unreachable || worker.fenced == Some(true) {
        return Ok(false);
    }
    match cx.restart_service_anew(worker, WORKER_SERVICE).await {
        Ok(()) => Ok(true),
        Err(why) if why.is_member_step_running() || why.is_cell_dead() => Ok(false),
        Err(why) => Err(why),
    }
}

fn set_down_by_another(node: &Node, why: &str) -> Failure {
    Failure::new(
        "set_down_by_another",
        format!(
            "{} was set down with the reason {why:?}, which is not the platform's: run `scontrol update nodename={} state=resume` \
             as root in the controller's cell, then resume again",
            node.name, node.name
        ),
    )
}

fn drained_by_another(node: &Node, why: &str) -> Failure {
    Failure::retry(
        PERSON,
        "drained_by_another",
        format!(
            "{} was drained outside the platform with the reason {why:?}: run `scontrol update nodename={} \
             state=resume` as root in the controller's cell when that is over, then try again",
            node.name, node.name
        ),
    )
}

/// Forgets a worker. Its cell may be gone; if it is not, slurmd is stopped first, or jobs would run in it that Slurm has given up.
pub(crate) async fn remove(cx: &StepCx) -> Outcome {
    let member = cx.member()?;
    let Ok(controller) = slurm::controller(cx) else {
        // A decommissioned instance removes its workers first; without a controller there is no record to delete.
        let away = cx.members_of("controller").any(|controller| controller.unreachable);
        return if away {
            Err(Failure::retry(
                SOON,
                "no_controller",
                "the controller, which depends on this worker, is unreachable",
            ))
        } else {
            Ok(Done::saying("there is no controller that depends on it"))
        };
    };
    if !member.unreachable
        && let Err(why) = cx.stop_service(member, WORKER_SERVICE).await
        && why.reason != "task_refused"
        && !why.is_cell_dead()
    {
        return Err(why);
    }
    match forget(cx, controller, &member.name).await {
        Ok(()) => Ok(Done::saying(format!("Slurm has removed {}", member.name))),
        // Its saved state may still have the record: the first look at a controller that was recovered takes it away.
        Err(why) if why.is_cell_dead() => Ok(Done::saying(format!(
            "the cell of {} is dead: no member depends on the worker",
            controller.name
        ))),
        Err(why) => Err(why),
    }
}

/// The names of the records that a member once had and none has any more: a worker that was removed while the controller's cell was dead.
pub(crate) fn orphans<'n>(nodes: impl Iterator<Item = &'n Node>, members: &[SnapshotMember]) -> Vec<&'n str> {
    let ours = |node: &&Node| node.features.iter().any(|feature| feature.starts_with(render::INCARNATION));
    let known = |node: &Node| members.iter().any(|member| member.name == node.name);
    nodes.filter(ours).filter(|node| !known(node)).map(|node| node.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_record_of_a_former_member_is_an_orphan() {
        let node = |name: &str, features: &str| {
            Node::parse(&format!("NodeName={name} State=DOWN AvailableFeatures={features} CPUTot=1")).unwrap()
        };
        let nodes = [node("lab-worker-1", "incarnation-1"), node("by-hand", "(null)")];
        assert_eq!(orphans(nodes.iter(), &[]), ["lab-worker-1"]);
    }
}
