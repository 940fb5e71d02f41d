//! Repair of broken members, in the transaction that assessed them. A member with `restart: always` and an ended cell is
//! recovered, within its cell's budget. Otherwise a repair is proposed or submitted, as `muster_model::repair` decides.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use muster_db::Tx;
use muster_engine::member::{RECOVER, REPLACE};
use muster_engine::{OperationRequest, accept};
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_manifest::{Manifest, Verb};
use muster_model::assess::HealthReason;
use muster_model::audit::Actor;
use muster_model::event::{EventType, NewEvent, Timeline};
use muster_model::instance::{Component, Health, Instance, RepairMode};
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::Operation;
use muster_model::operation_input::OperationInput;
use muster_model::repair::{Breaker, Broken, Decision, consider};
use muster_wire::cell::CellRestart;
use serde_json::json;

use super::assess::Facts;
use super::restart::{self, RestartDecision};
use crate::member::successor::Successors;
use crate::{Cx, instance, member};

/// Deadline of a replacement.
const WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// Result of a repair round.
#[derive(Default)]
pub(super) struct Repaired {
    /// Whether a repair was submitted.
    pub(super) opened: bool,
    /// Whether members stay broken because the repair budget is spent.
    pub(super) exhausted: bool,
    /// Broken members with an open operation: whether they stay broken is not known yet.
    pub(super) busy: BTreeSet<MemberId>,
    pub(super) told: Vec<NewEvent>,
}

/// A broken member, and how to repair it.
struct Unwell<'m> {
    member: &'m Member,
    verb: Verb,
}

/// Returns the repair verb. A member with a dead cell on a reachable node, or one with a failed recovery, is recovered in
/// place, with its state; any other is replaced, also one without an allocation to be recovered in.
fn verb_for(member: &Member, manifest: &Manifest, unreachable: &BTreeSet<MemberId>) -> Verb {
    let lost = match member.state {
        MemberState::Failed => member.failure_reason != Some(MemberFailure::AllocationEnded),
        _ => member.health_reason == Some(HealthReason::CellExited),
    };
    match lost && manifest.supports(Verb::Recover) && !unreachable.contains(&member.id) {
        true => Verb::Recover,
        false => Verb::Replace,
    }
}

/// Reports whether a member that was active is broken. A member with a failed add was never counted; one with a failed
/// recovery is broken if that proved something about the member: silence and a person's cancellation do not.
pub(super) fn is_broken(member: &Member) -> bool {
    match member.state {
        MemberState::Active => {
            member.known_health() == Health::Unhealthy
                && member.health_reason != Some(HealthReason::ServiceRestarting)
        }
        MemberState::Failed => {
            member.active_witness_id.is_some() && member.failure_reason.is_some_and(MemberFailure::is_its_own)
        }
        _ => false,
    }
}

/// Decides on repairs of the broken members, and submits them.
pub(super) async fn repair(
    cx: &Cx,
    tx: &mut Tx,
    of: &Instance,
    facts: &Facts,
    components: &[Component],
    living: &[Member],
) -> muster_db::Result<Repaired> {
    let manifest = &facts.manifest;
    let unreachable = Successors::unreachable(&facts.places);
    let unwell: Vec<Unwell<'_>> = living
        .iter()
        .filter(|member| is_broken(member))
        .map(|member| Unwell { member, verb: verb_for(member, manifest, &unreachable) })
        .collect();
    if unwell.is_empty() {
        return Ok(Repaired::default());
    }
    // An operation that locks the whole instance covers all of its members.
    let held = tx.operations_locking_now(of.id.uuid()).await?;
    if held.iter().any(|operation| operation.exclusive_locks.contains(&of.id.uuid())) {
        return Ok(Repaired::default());
    }
    let replacing = member::quorum::replacing(&held, &BTreeSet::new());
    let unannounced = tx.member_repair_unannounced(of.id).await?;
    let mut broken = Vec::new();
    for one in &unwell {
        let busy = replacing.contains(&one.member.id)
            || !tx.operations_locking_now(one.member.id.uuid()).await?.is_empty();
        broken.push(Broken {
            member: one.member.id,
            unannounced: unannounced.contains(&one.member.id),
            busy,
        });
    }
    let busy: BTreeSet<MemberId> = broken.iter().filter(|one| one.busy).map(|one| one.member).collect();
    let (told_of_restarts, restarted) = restart_members(cx, tx, of, facts, &unwell, &busy).await?;
    if restarted {
        return Ok(Repaired { opened: true, told: told_of_restarts, busy, ..Repaired::default() });
    }
    let mut repaired = decide(cx, tx, of, facts, components, &unwell, &broken, &held).await?;
    repaired.told.splice(0..0, told_of_restarts);
    Ok(Repaired { busy, ..repaired })
}

/// Recovers members with an ended cell and a restart policy in their component. Returns the events, and whether any member
/// is being recovered. All at once: a node's reboot ends many cells and is no fault of any of them.
async fn restart_members(
    cx: &Cx,
    tx: &mut Tx,
    of: &Instance,
    facts: &Facts,
    unwell: &[Unwell<'_>],
    busy: &BTreeSet<MemberId>,
) -> muster_db::Result<(Vec<NewEvent>, bool)> {
    let (mut told, mut restarted) = (Vec::new(), false);
    if of.repair == RepairMode::Off {
        return Ok((told, restarted));
    }
    let restarts = |key: &str| {
        let mut components = facts.manifest.components.iter();
        components.any(|component| component.key == key && component.restart == CellRestart::Always)
    };
    for one in unwell.iter().filter(|one| one.verb == Verb::Recover && !busy.contains(&one.member.id)) {
        let member = one.member;
        let Some(cell) = member.cell_id.filter(|_| restarts(&member.component_key)) else { continue };
        match restart::decide(cx, tx, cell, member.incarnation).await? {
            RestartDecision::Decided => {}
            RestartDecision::Suspend => {
                let data = json!({"name": member.name, "component_key": member.component_key,
                                  "incarnation": member.incarnation, "message": member.health_message,
                                  "advice": format!("muster member recover {} {}", of.name, member.name)});
                told.push((EventType::MemberRestartSuspended, member::path(member), data));
            }
            RestartDecision::Restart => {
                told.push(open_recover(cx, tx, member, restart::asked_by_policy(), "restart").await?);
                restarted = true;
            }
        }
    }
    Ok((told, restarted))
}

/// Proposes or submits a repair of the broken members that were not restarted.
#[expect(clippy::too_many_arguments, reason = "everything that is known of the instance at this moment")]
async fn decide(
    cx: &Cx,
    tx: &mut Tx,
    of: &Instance,
    facts: &Facts,
    components: &[Component],
    unwell: &[Unwell<'_>],
    broken: &[Broken],
    held: &[Operation],
) -> muster_db::Result<Repaired> {
    let manifest = &facts.manifest;
    let mode = match of.repair {
        RepairMode::Automatic if unwell.iter().any(|one| !manifest.supports(one.verb)) => RepairMode::Propose,
        mode => mode,
    };
    let policy = &manifest.repair;
    let breaker =
        Breaker { most: policy.most, window: SignedDuration::from_secs(policy.window_seconds.into()) };
    let named = |id: &MemberId| unwell.iter().find(|one| one.member.id == *id);
    let tell = |event, ids: &[MemberId]| {
        ids.iter().filter_map(named).map(|one| told(event, of, one.member, one.verb)).collect::<Vec<_>>()
    };
    let is_repair = |operation: &Operation| {
        operation.asked_by.kind == "platform" && [REPLACE.kind, RECOVER.kind].contains(&operation.kind)
    };
    let repairing = held.iter().any(is_repair);
    let spent = breaker.recent(&of.repairs, cx.now).len() as i64 >= breaker.most;
    let free = broken.iter().any(|one| !one.busy);
    let exhausted = mode == RepairMode::Automatic && spent && free && !repairing;
    match consider(mode, breaker, &of.repairs, broken, repairing, cx.now) {
        Decision::Nothing => Ok(Repaired { exhausted, ..Repaired::default() }),
        Decision::Propose(ids) => {
            announced(tx, &ids).await?;
            Ok(Repaired { told: tell(EventType::InstanceRepairProposed, &ids), ..Repaired::default() })
        }
        Decision::Suspend(ids) => {
            announced(tx, &ids).await?;
            let mut told = tell(EventType::InstanceRepairSuspended, &ids);
            told.extend(tell(EventType::InstanceRepairProposed, &ids));
            Ok(Repaired { exhausted, told, ..Repaired::default() })
        }
        Decision::Open(id) => {
            let Some(one) = named(&id) else { return Ok(Repaired::default()) };
            let successors = Successors {
                instance: of.clone(),
                manifest: manifest.clone(),
                components: components.to_vec(),
                unreachable: Successors::unreachable(&facts.places),
            };
            let told = open_repair(cx, tx, &successors, one).await?;
            let mut repairs = breaker.recent(&of.repairs, cx.now);
            repairs.push(cx.now);
            tx.instance_repaired(of.id, &repairs, cx.now).await?;
            Ok(Repaired { opened: true, told, ..Repaired::default() })
        }
    }
}

/// Marks repairs as announced, each once. A member that broke during an operation that blocked the announcement is announced
/// later.
async fn announced(tx: &mut Tx, ids: &[MemberId]) -> muster_db::Result<()> {
    for id in ids {
        tx.member_repair_announced(*id).await?;
    }
    Ok(())
}

fn told(event: EventType, of: &Instance, member: &Member, verb: Verb) -> NewEvent {
    // Each command in full, so that the command line's test of every advised command finds it.
    let advice = match verb {
        Verb::Recover => format!("muster member recover {} {}", of.name, member.name),
        _ => format!("muster member replace {} {}", of.name, member.name),
    };
    let data = json!({"name": of.name, "member_id": member.id, "member": member.name, "incarnation": member.incarnation,
                      "message": member.health_message, "advice": advice});
    (event, instance::path(of), data)
}

/// Submits a repair, as the instance's repair mode demands.
async fn open_repair(
    cx: &Cx,
    tx: &mut Tx,
    successors: &Successors,
    one: &Unwell<'_>,
) -> muster_db::Result<Vec<NewEvent>> {
    let old = one.member;
    if one.verb == Verb::Recover {
        return Ok(vec![open_recover(cx, tx, old, asked_by_repair(), "repair").await?]);
    }
    let why = why_repaired(old);
    let input = successors.input(false, &format!("repair: {why}"));
    let mut opened = accept(&REPLACE, request(cx, old, asked_by_repair(), input));
    let mut told = successors.write(cx, tx, &mut opened, std::slice::from_ref(old), &[]).await?;
    tx.operation_open(&opened).await?;
    told.push(accepted(old, &opened, &why));
    Ok(told)
}

/// Submits the recovery of a member in place.
async fn open_recover(
    cx: &Cx,
    tx: &mut Tx,
    old: &Member,
    asked_by: Actor,
    what: &str,
) -> muster_db::Result<NewEvent> {
    let why = why_repaired(old);
    let input = OperationInput::because(format!("{what}: {why}"));
    let opened = accept(&RECOVER, request(cx, old, asked_by, input));
    tx.operation_open(&opened).await?;
    Ok(accepted(old, &opened, &why))
}

fn asked_by_repair() -> Actor {
    Actor::platform("repair")
}

fn why_repaired(member: &Member) -> String {
    member.health_message.clone().unwrap_or_else(|| "its adapter reported it broken".to_owned())
}

fn request(cx: &Cx, old: &Member, asked_by: Actor, input: OperationInput) -> OperationRequest {
    OperationRequest {
        id: cx.platform.env.id::<OperationId>(),
        scope: old.scope(),
        subject_kind: "member",
        subject_id: old.id.uuid(),
        subject_name: old.name.clone(),
        exclusive_locks: vec![old.id.uuid()],
        shared_locks: vec![old.instance_id.uuid()],
        timeline: Timeline::of_member(old),
        asked_by,
        correlation_id: cx.correlation_id.clone(),
        input,
        deadline_at: cx.now + WITHIN,
        parent_id: None,
        now: cx.now,
    }
}

fn accepted(old: &Member, opened: &Operation, why: &str) -> NewEvent {
    let data = json!({"name": old.name, "kind": opened.kind, "operation_id": opened.id, "reason": why,
                      "asked_by": "platform"});
    (EventType::OperationAccepted, member::path(old), data)
}
