//! A look at a whole cluster: the accounts are mended where slurmctld lost one, and each member's health is what Slurm says of it.

use std::collections::BTreeMap;

use muster_adapter_kit::types::{Health, MemberReport, MemberState, SnapshotMember};
use muster_adapter_kit::{Done, Failure, Outcome, StepCx};
use serde_json::{Map, Value, json};

use crate::controller::accounts;
use crate::node::{Drain, Node};
use crate::places::{ACCOUNTS_USABLE, CONTROLLER, SCONTROL, WORKER};
use crate::slurm::{self, timed};

pub(crate) async fn reconcile(cx: &StepCx) -> Outcome {
    let Ok(controller) = slurm::controller(cx) else {
        return Ok(Done::saying("no controller works, and nobody else can say how the members do"));
    };
    let mut members = Vec::new();
    let accounting = usable(cx, controller).await;
    members.push(report(
        controller,
        match accounting {
            Ok(()) => (Health::Healthy, "slurmctld takes jobs of every user".to_owned()),
            Err(why) => (Health::Degraded, why.message),
        },
        controller.adapter_detail.clone(),
    ));
    let ran = cx.look(controller, timed([SCONTROL, "-o", "show", "node"])).await?;
    // Without any node scontrol says so and ends well; with an error nothing is known of anybody.
    if ran.exit != 0 {
        let why = format!("slurmctld does not answer: {}", ran.stderr.trim());
        members[0] = report(controller, (Health::Unhealthy, why), controller.adapter_detail.clone());
        return Ok(Done { members, ..Done::default() });
    }
    let nodes: BTreeMap<String, Node> =
        ran.stdout.lines().filter_map(Node::parse).map(|node| (node.name.clone(), node)).collect();
    let seen = |worker: &&SnapshotMember| matches!(worker.state, MemberState::Active | MemberState::Drained);
    for worker in cx.members_of(WORKER).filter(seen) {
        let node = nodes.get(&worker.name);
        members.push(report(worker, health(worker, node), detail(worker, node)));
    }
    Ok(Done { members, ..Done::default() })
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
            format!("Slurm says {state}: {}", node.reason.as_deref().unwrap_or("no reason given")),
        ),
        Drain::Theirs(why) => (Health::Degraded, format!("somebody drained it and said {why:?}")),
        Drain::Ours if worker.state == MemberState::Drained => {
            (Health::Healthy, format!("Slurm says {state}"))
        }
        Drain::Ours => (Health::Degraded, format!("Slurm says {state}, and it should take jobs")),
        Drain::None if node.works() => (Health::Healthy, format!("Slurm says {state}")),
        Drain::None => (Health::Unhealthy, format!("Slurm says {state}")),
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
    debug_assert!([CONTROLLER, WORKER].contains(&member.component_key.as_str()));
    MemberReport {
        member_id: member.id.clone(),
        incarnation: member.incarnation,
        health,
        message: Some(message),
        adapter_detail,
    }
}
