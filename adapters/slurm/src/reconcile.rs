//! A look at a cluster: repairs accounts that slurmctld lost, and reports each member's health from Slurm's own records.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_adapter_kit::types::{CommandOrder, Health, MemberReport, MemberState, SnapshotMember};
use muster_adapter_kit::{Done, Failure, Outcome, StepCx};
use serde_json::{Map, Value, json};

use crate::controller::accounts;
use crate::key;
use crate::node::{Drain, Node};
use crate::places::{ACCOUNTS_USABLE, LOGIN, SCONTROL, SQUEUE, WORKER};
use crate::queue::{self, End};
use crate::slurm::{self, timed};
use crate::worker;

/// Delay of the next look after an announcement that requires an action.
const AT_ONCE: Duration = Duration::from_secs(1);
/// When to look again after the key was changed.
const AFTER_A_CHANGE: Duration = Duration::from_secs(3);

pub(crate) async fn reconcile(cx: &StepCx) -> Outcome {
    let Ok(controller) = slurm::controller(cx) else {
        return Ok(Done::saying("no active controller, and only it knows the state of the members"));
    };
    let wanted = key::wanted(cx).await?;
    if key::held(controller) != Some(&wanted) && !key::is_announced(controller, &wanted) {
        return Ok(announced(controller, &wanted));
    }
    // Keys and accounts belong to the cluster, whatever happens to a member meanwhile: a member that joins with a former key gets
    // the current one at the next look.
    let beside = cx.beside_member_steps();
    let changed = keys(&beside, controller, &wanted).await?;
    let noted = |member: &SnapshotMember, mut detail: Map<String, Value>| {
        if changed.members.contains(&member.id.to_string()) {
            key::noted(&mut detail, member, &wanted);
        }
        detail
    };
    let mut members = Vec::new();
    let accounting = usable(&beside, controller).await;
    members.push(report(
        controller,
        match accounting {
            Ok(()) if changed.without.is_empty() => {
                (Health::Healthy, "slurmctld accepts jobs of every user".to_owned())
            }
            Ok(()) => {
                (Health::Degraded, format!("these lack the cluster's key: {}", changed.without.join("; ")))
            }
            Err(why) => (Health::Degraded, why.message),
        },
        noted(controller, controller.adapter_detail.clone()),
    ));
    let ran = cx.look(controller, in_seconds([SCONTROL, "-o", "show", "node"])).await?;
    // Without any node scontrol exits with zero; after an error nothing is known of any member.
    if ran.exit != 0 {
        let why = format!("slurmctld does not answer: {}", ran.stderr.trim());
        let detail = noted(controller, controller.adapter_detail.clone());
        members[0] = report(controller, (Health::Unhealthy, why), detail);
        // The next reconcile records the workers' files, after it wrote them again.
        let reconcile_after = (!changed.is_nothing()).then_some(AFTER_A_CHANGE);
        return Ok(Done { members, reconcile_after, ..Done::default() });
    }
    let nodes: BTreeMap<String, Node> =
        ran.stdout.lines().filter_map(Node::parse).map(|node| (node.name.clone(), node)).collect();
    for orphan in worker::orphans(nodes.values(), &cx.snapshot().members) {
        match worker::forget(cx, controller, orphan).await {
            // It may be a member's that joined since: the next look finds out.
            Err(why) if !why.is_member_step_running() => return Err(why),
            _ => {}
        }
    }
    let ends = ends(cx, controller).await?;
    let seen = |worker: &&SnapshotMember| {
        matches!(worker.state, MemberState::Active | MemberState::Draining | MemberState::Drained)
    };
    let mut revived = Vec::new();
    for worker in cx.members_of(WORKER).filter(seen) {
        let node = nodes.get(&worker.name);
        let free_at = node.and_then(|node| free_at(node, ends.as_ref()?));
        let mut health = health(worker, node);
        if node.is_none() && worker::register_again(cx, worker).await? {
            health =
                (Health::Degraded, "Slurm had no record of it: slurmd was restarted to register".to_owned());
            revived.push(worker.name.clone());
        }
        if let Some(node) = node
            && worker::revive(cx, controller, worker, node).await?
        {
            health = (Health::Degraded, "slurmd answers again: Slurm returns it to service".to_owned());
            revived.push(worker.name.clone());
        }
        members.push(MemberReport { free_at, ..report(worker, health, noted(worker, detail(worker, node))) });
    }
    let joins = |worker: &&SnapshotMember| worker.state == MemberState::Joining;
    for worker in cx.members_of(WORKER).filter(joins).filter(|worker| !nodes.contains_key(&worker.name)) {
        if worker::register_again(cx, worker).await? {
            revived.push(worker.name.clone());
        }
    }
    for login in cx.members_of(LOGIN).filter(|login| login.state == MemberState::Active && !login.unreachable)
    {
        members.push(report(login, pinged(cx, login).await?, noted(login, login.adapter_detail.clone())));
    }
    // A look that changed the key may have ended before the former one was revoked: then it is for this one.
    if changed.is_nothing() && !key::is_announced(controller, &wanted) {
        // Soon again after a worker came back: only the next look can find it at work.
        let back = (!revived.is_empty()).then(|| format!("returned to service: {}", revived.join(", ")));
        let reconcile_after = back.is_some().then_some(AFTER_A_CHANGE);
        return Ok(Done { members, message: back, reconcile_after, ..Done::default() });
    }
    let mut message = format!("{} member(s) received the cluster's key", changed.members.len());
    if !changed.hanging.is_empty() {
        let jobs = &changed.hanging;
        message.push_str(&format!(
            "; these jobs did not end meanwhile, and Slurm requeues them in a minute: {jobs}"
        ));
    }
    // The former key is no longer in use. Revoke it last: until here a rerun of this look would need it. An account without the
    // permission to revoke has still rotated the key, and retries at each look.
    match cx.shared_secret_only(key::NAME, &wanted).await {
        Ok(()) => key::ended(&mut members[0].adapter_detail),
        Err(why) => message.push_str(&format!("; the previous one was not revoked: {}", why.message)),
    }
    // Look again soon: a member may have joined with the former key during the rotation.
    let reconcile_after = (!changed.is_nothing()).then_some(AFTER_A_CHANGE);
    Ok(Done { members, message: Some(message), reconcile_after, ..Done::default() })
}

/// A command that prints times in seconds since 1970.
fn in_seconds<const N: usize>(words: [&str; N]) -> CommandOrder {
    let mut order = timed(words);
    order.environment.insert("SLURM_TIME_FORMAT".to_owned(), "%s".to_owned());
    order
}

/// When each node that has work is free; nothing where the queue cannot be read.
async fn ends(cx: &StepCx, controller: &SnapshotMember) -> Result<Option<BTreeMap<String, End>>, Failure> {
    let ran = cx.look(controller, in_seconds([SQUEUE, "--noheader", "--format", queue::FORMAT])).await?;
    Ok(if ran.exit == 0 && !ran.timed_out && !ran.truncated { queue::ends(&ran.stdout) } else { None })
}

/// When a node is free: since it last had work if it has none, and when the last of its jobs is over if it has.
fn free_at(node: &Node, ends: &BTreeMap<String, End>) -> Option<Timestamp> {
    match ends.get(&node.name) {
        Some(End::At(at)) => Some(*at),
        Some(End::Unknown) => None,
        None if node.is("IDLE") && !node.is("COMPLETING") => node.last_busy,
        None => None,
    }
}

/// Announces the rotation before it starts, as the controller's health.
fn announced(controller: &SnapshotMember, key: &str) -> Done {
    let mut detail = controller.adapter_detail.clone();
    key::announced(&mut detail, key);
    let why = "the cluster's key was revoked, or a member left while unreachable: the key is being rotated, and new jobs wait until then";
    let members = vec![report(controller, (Health::Degraded, why.to_owned()), detail)];
    Done { members, message: Some(why.to_owned()), reconcile_after: Some(AT_ONCE), ..Done::default() }
}

/// Ensures that every cell has the cluster's key.
async fn keys(cx: &StepCx, controller: &SnapshotMember, key: &str) -> Result<key::Changed, Failure> {
    if key::held(controller) != Some(key) {
        return key::change(cx, controller, key).await;
    }
    if key::others(cx, key).is_empty() {
        Ok(key::Changed::default())
    } else {
        key::swap(cx, controller, key).await
    }
}

/// How a login does: it is of use as long as slurmctld answers it.
async fn pinged(cx: &StepCx, login: &SnapshotMember) -> Result<(Health, String), Failure> {
    let ran = cx.look(login, timed([SCONTROL, "ping"])).await?;
    Ok(if ran.exit == 0 && ran.stdout.contains("is UP") {
        (Health::Healthy, "slurmctld answers it".to_owned())
    } else {
        (Health::Degraded, format!("slurmctld does not answer it: {}", ran.stderr.trim()))
    })
}

async fn usable(cx: &StepCx, controller: &SnapshotMember) -> Result<(), Failure> {
    let ran = cx.look(controller, timed([ACCOUNTS_USABLE])).await?;
    if ran.exit == 0 { Ok(()) } else { accounts(cx, controller).await }
}

fn health(worker: &SnapshotMember, node: Option<&Node>) -> (Health, String) {
    let Some(node) = node else {
        return (Health::Unhealthy, "Slurm knows no such node".to_owned());
    };
    let state = node.state();
    match node.drain() {
        _ if node.is("DOWN") || node.is("NOT_RESPONDING") => (
            Health::Unhealthy,
            format!("Slurm reports {state}: {}", node.reason.as_deref().unwrap_or("no reason given")),
        ),
        Drain::Theirs(why) => (Health::Degraded, format!("drained outside the platform, reason {why:?}")),
        Drain::Ours if worker.state != MemberState::Active => {
            (Health::Healthy, format!("Slurm reports {state}"))
        }
        Drain::Ours => (Health::Degraded, format!("Slurm reports {state}, but it should accept jobs")),
        Drain::None if worker.state == MemberState::Drained => (
            Health::Degraded,
            format!("Slurm reports {state}, but the member is drained: resume it, or drain it again"),
        ),
        Drain::None if node.works() => (Health::Healthy, format!("Slurm reports {state}")),
        Drain::None => (Health::Unhealthy, format!("Slurm reports {state}")),
    }
}

fn detail(worker: &SnapshotMember, node: Option<&Node>) -> Map<String, Value> {
    let mut detail = worker.adapter_detail.clone();
    if let Some(node) = node {
        detail.insert("state".to_owned(), json!(node.state()));
        detail.insert("reason".to_owned(), json!(node.reason));
        detail.insert("cpus".to_owned(), json!({"allocated": node.allocated_cpus, "all": node.cpus}));
        if let Some(version) = &node.version {
            detail.insert("slurmd".to_owned(), json!(version));
        }
    }
    detail
}

fn report(
    member: &SnapshotMember,
    (health, message): (Health, String),
    adapter_detail: Map<String, Value>,
) -> MemberReport {
    MemberReport {
        member_id: member.id.clone(),
        incarnation: member.incarnation,
        health,
        message: Some(message),
        adapter_detail,
        free_at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at a cluster of one controller that has the key, of which this is noted besides.
    async fn look(besides: Value) -> (Done, Vec<Value>) {
        let mut detail = json!({"munge": {"secret": "rts_munge", "incarnation": 1}});
        detail.as_object_mut().unwrap().extend(besides.as_object().unwrap().clone());
        let member = json!({"id": "mem_1", "component_key": "controller", "name": "lab-controller-1", "state": "active",
                            "health": "healthy", "incarnation": 1, "unreachable": false, "gpus": 0, "cpus": 1,
                            "memory_mb": 1024, "adapter_detail": detail});
        let step = json!({"id": "ads_1", "project_id": "prj_1", "app_id": "app_1", "instance_id": "ins_1", "incarnation": 0,
                          "verb": "reconcile", "input": {}, "state": "leased", "generation": 1, "attempts": 1,
                          "correlation_id": "x", "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:10:00Z"});
        let snapshot = json!({"instance_id": "ins_1", "instance": "lab", "app": "slurm", "app_version_id": "ver_1",
                              "app_version": "1", "config": {}, "manifest": {}, "members": [member]});
        let leased = json!({"step": step, "snapshot": snapshot});
        let cx = StepCx::rehearsal(serde_json::from_value(leased).unwrap());
        let done = reconcile(&cx).await.unwrap();
        (done, cx.rehearsed())
    }

    fn revokes(deeds: &[Value]) -> bool {
        deeds.contains(&json!({"shared_secret_only": {"name": "munge", "keep": "rts_munge"}}))
    }

    #[tokio::test]
    async fn a_former_key_that_an_earlier_look_left_is_revoked() {
        let (done, deeds) = look(json!({"key_changes": "rts_munge"})).await;
        assert!(revokes(&deeds), "{deeds:?}");
        assert!(!done.members[0].adapter_detail.contains_key("key_changes"), "the change is over");
        assert!(done.reconcile_after.is_none(), "there is nothing to look after soon");
    }

    #[tokio::test]
    async fn a_look_at_a_settled_cluster_revokes_nothing() {
        let (done, deeds) = look(json!({})).await;
        assert!(!revokes(&deeds), "{deeds:?}");
        assert_eq!(done.members[0].adapter_detail["munge"]["secret"], "rts_munge");
    }

    #[tokio::test]
    async fn another_key_is_announced_before_anything_is_changed() {
        let (done, deeds) = look(json!({"munge": {"secret": "rts_old", "incarnation": 1}})).await;
        assert_eq!(done.members[0].adapter_detail["key_changes"], "rts_munge");
        assert!(done.reconcile_after.is_some());
        assert!(deeds.iter().all(|deed| deed.get("task").is_none()), "{deeds:?}");
    }
}
