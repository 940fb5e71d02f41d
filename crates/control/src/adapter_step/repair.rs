//! What is done about members that an adapter found broken: in the very transaction that takes its word, a proposal is told or a
//! replacement opened. What to do is decided by `muster_model::repair`; here it is done.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_manifest::{Manifest, Verb};
use muster_model::event::EventType;
use muster_model::instance::{Component, Health, Instance, RepairMode};
use muster_model::member::{Member, MemberState};
use muster_model::operation::AskedBy;
use muster_model::repair::{Breaker, Broken, Decision, consider};
use muster_operations::member::REPLACE;
use muster_operations::{Open, open};
use muster_store::Tx;
use serde_json::json;

use super::reconcile::Seen;
use crate::member::successor::Successors;
use crate::telling::Told;
use crate::{Cx, instance, member};

/// How long a replacement has.
const WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// What was done.
#[derive(Default)]
pub(super) struct Done {
    /// Whether a replacement was opened.
    pub(super) opened: bool,
    pub(super) told: Vec<Told>,
}

/// Decides what is done about the members that do not work, and does it.
pub(super) async fn repair(
    cx: &Cx,
    tx: &mut Tx,
    of: &Instance,
    manifest: &Manifest,
    components: &[Component],
    unreachable: &BTreeSet<MemberId>,
    seen: &[Seen],
) -> muster_store::Result<Done> {
    let is_broken = |one: &&Seen| {
        one.member.state == MemberState::Active && one.member.known_health() == Health::Unhealthy
    };
    let unwell: Vec<&Seen> = seen.iter().filter(is_broken).collect();
    // What works on the instance as a whole comes to all of its members.
    let held = tx.operation_touching_now(of.id.uuid()).await?;
    if unwell.is_empty() || held.iter().any(|operation| operation.touches.contains(&of.id.uuid())) {
        return Ok(Done::default());
    }
    let replacing = member::quorum::replacing(&held, &BTreeSet::new());
    let mut broken = Vec::new();
    for one in &unwell {
        let busy = replacing.contains(&one.member.id)
            || !tx.operation_touching_now(one.member.id.uuid()).await?.is_empty();
        broken.push(Broken { member: one.member.id, newly: one.newly_broken, busy });
    }
    let mode = match of.repair {
        RepairMode::Automatic if !manifest.supports(Verb::Replace) => RepairMode::Propose,
        mode => mode,
    };
    let policy = &manifest.repair;
    let breaker =
        Breaker { most: policy.most, window: SignedDuration::from_secs(policy.window_seconds.into()) };
    let named = |id: &MemberId| unwell.iter().map(|one| &one.member).find(|member| member.id == *id);
    let tell = |event, ids: &[MemberId]| {
        ids.iter().filter_map(named).map(|member| told(event, of, member)).collect::<Vec<_>>()
    };
    let repairing =
        held.iter().any(|operation| operation.kind == REPLACE.kind && operation.asked_by.kind == "platform");
    match consider(mode, breaker, &of.repairs, &broken, repairing, cx.now) {
        Decision::Nothing => Ok(Done::default()),
        Decision::Propose(ids) => {
            Ok(Done { opened: false, told: tell(EventType::InstanceRepairProposed, &ids) })
        }
        Decision::Suspend(ids) => {
            let mut news = tell(EventType::InstanceRepairSuspended, &ids);
            news.extend(tell(EventType::InstanceRepairProposed, &ids));
            Ok(Done { opened: false, told: news })
        }
        Decision::Open(id) => {
            let Some(old) = named(&id) else { return Ok(Done::default()) };
            let successors = Successors {
                instance: of.clone(),
                manifest: manifest.clone(),
                components: components.to_vec(),
                unreachable: unreachable.clone(),
            };
            let told = replace(cx, tx, &successors, old).await?;
            let mut repairs = breaker.recent(&of.repairs, cx.now);
            repairs.push(cx.now);
            tx.instance_repaired(of.id, &repairs, cx.now).await?;
            Ok(Done { opened: true, told })
        }
    }
}

fn told(event: EventType, of: &Instance, member: &Member) -> Told {
    let data = json!({"name": of.name, "member_id": member.id, "member": member.name, "incarnation": member.incarnation,
                      "message": member.health_message,
                      "advice": format!("muster member replace --instance {} {}", of.name, member.name)});
    (event, instance::path(of), data)
}

/// Opens a replacement, on nobody's order but the instance's own.
async fn replace(
    cx: &Cx,
    tx: &mut Tx,
    successors: &Successors,
    old: &Member,
) -> muster_store::Result<Vec<Told>> {
    let why = old.health_message.clone().unwrap_or_else(|| "its adapter found it broken".to_owned());
    let mut opened = open(
        &REPLACE,
        Open {
            id: cx.platform.world.id::<OperationId>(),
            scope: old.scope(),
            subject_kind: "member",
            subject_id: old.id.uuid(),
            subject_name: old.name.clone(),
            touches: vec![old.id.uuid()],
            shares: vec![old.instance_id.uuid()],
            asked_by: AskedBy {
                kind: "platform".to_owned(),
                id: "platform".to_owned(),
                name: "repair".to_owned(),
            },
            correlation_id: cx.correlation_id.clone(),
            input: successors.input(false, &format!("repair: {why}")),
            deadline_at: cx.now + WITHIN,
            parent_id: None,
            now: cx.now,
        },
    );
    let mut told = successors.write(cx, tx, &mut opened, std::slice::from_ref(old)).await?;
    tx.operation_open(&opened).await?;
    let data = json!({"name": old.name, "kind": opened.kind, "operation_id": opened.id, "reason": why,
                      "asked_by": "platform"});
    told.push((EventType::OperationAccepted, member::path(old), data));
    Ok(told)
}
