//! An adapter looked at an instance, and says how its members do.
//!
//! What it says of members counts for the incarnations that it speaks of. Rows, events and audit are left only where something
//! changed by it: a look that found everything as it was is as if it had not been, but for the time of it.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use muster_api::adapter_step::{AdapterStepComplete, MemberReport};
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::adapter::AdapterStep;
use muster_model::event::EventType;
use muster_model::instance::{Health, Instance, InstanceState, health_of};
use muster_model::member::Member;
use muster_store::{StoreError, Tx};
use serde_json::{Value, json};

use super::complete::{audited, end};
use super::{refuse_adapter, repair, view};
use crate::instance::{health_in, manifest_of, standings};
use crate::member::successor::Successors;
use crate::refuse::{Result, refuse};
use crate::telling::Told;
use crate::{Answer, Cx, instance, member};

/// Takes the end of a look.
pub(super) async fn reconciled(cx: &Cx, step: &AdapterStep, body: AdapterStepComplete) -> Result<Answer> {
    let store = &cx.platform.store;
    let gone = || refuse(StoreError::Gone("instance".to_owned()));
    let instance = store.instance_lookup(step.instance_id).await.map_err(refuse)?.ok_or_else(gone)?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    let places = store.member_places(instance.id).await.map_err(refuse)?;
    let looked = Looked { manifest, unreachable: Successors::unreachable(&places) };
    let mut tx = store.begin().await.map_err(refuse)?;
    match write(cx, &mut tx, step, &looked, &body).await {
        Ok((ended, opened)) => {
            tx.commit().await.map_err(refuse)?;
            cx.platform.unsealed.notify_one();
            if opened {
                cx.platform.engine.wake.notify_one();
            }
            Ok(Answer::new(&view(&ended)))
        }
        Err(error) => {
            tx.rollback().await;
            Err(refuse_adapter(error))
        }
    }
}

/// What was read before the transaction.
struct Looked {
    manifest: Manifest,
    /// Members whose nodes nobody hears from.
    unreachable: BTreeSet<MemberId>,
}

/// The statements. Says how the step stands, and whether an operation was opened.
async fn write(
    cx: &Cx,
    tx: &mut Tx,
    step: &AdapterStep,
    looked: &Looked,
    body: &AdapterStepComplete,
) -> muster_store::Result<(AdapterStep, bool)> {
    let manifest = &looked.manifest;
    let gone = || StoreError::Gone("instance".to_owned());
    // The instance's row first, as in the lease of a look: in opposite orders the two would wait for each other.
    let instance = tx.instance_hold(step.instance_id).await?.ok_or_else(gone)?;
    let ended = end(cx, tx, step, body).await?;
    let (members, mut told, mut changed) = reports(cx, tx, &instance, body).await?;
    if let Some(mode) = &body.topology_mode {
        changed |= tx.instance_topology(instance.id, mode, cx.now).await?;
    }
    let mut opened = false;
    if instance.state == InstanceState::Running {
        let components = tx.component_list_now(instance.id).await?;
        let standings = standings(manifest, &components, members.iter().map(|one| (&one.member, 1)));
        let health = health_of(&standings.into_values().collect::<Vec<_>>());
        if tx.instance_health(instance.id, health, cx.now).await? {
            told.push(instance_told(&instance, health));
        }
        let lost = &looked.unreachable;
        let done = repair::repair(cx, tx, &instance, manifest, &components, lost, &members).await?;
        opened = done.opened;
        told.extend(done.told);
    }
    let wish = body.reconcile_after_seconds.unwrap_or(manifest.reconcile_seconds.into());
    tx.instance_reconciled(instance.id, cx.now, cx.now + SignedDuration::from_secs(wish)).await?;
    changed |= !told.is_empty();
    let tasks = OperationId::from_uuid(step.id.uuid());
    if changed {
        tx.task_expire_of(tasks, cx.now).await?;
        cx.tell(tx, step.scope(), Some(audited(step, &ended)), told).await?;
    } else {
        tx.task_forget_of(tasks).await?;
        tx.adapter_step_forget(step.id).await?;
    }
    Ok((ended, opened))
}

/// A member after the look, and whether it was found broken by it and not before.
pub(super) struct Seen {
    pub(super) member: Member,
    pub(super) newly_broken: bool,
}

/// Writes down what was said of the members. What is said of one that is not there any more, or of an incarnation that is over,
/// comes too late and counts for nothing.
async fn reports(
    cx: &Cx,
    tx: &mut Tx,
    instance: &Instance,
    body: &AdapterStepComplete,
) -> muster_store::Result<(Vec<Seen>, Vec<Told>, bool)> {
    let (mut told, mut changed) = (Vec::new(), false);
    let mut seen: Vec<Seen> = tx
        .member_living_now(instance.id)
        .await?
        .into_iter()
        .map(|member| Seen { member, newly_broken: false })
        .collect();
    for report in body.members.iter().flatten() {
        let meant = |one: &&mut Seen| {
            one.member.id == report.member_id && one.member.incarnation == report.incarnation
        };
        let Some(one) = seen.iter_mut().find(meant) else { continue };
        let (before, after) = (one.member.known_health(), health_in(report.health));
        let as_before = one.member.health_incarnation == report.incarnation
            && one.member.health == after
            && one.member.health_message == report.message;
        if !as_before
            && tx
                .member_health(report.member_id, report.incarnation, after, report.message.as_deref(), cx.now)
                .await?
        {
            changed = true;
            one.member.health = after;
            one.member.health_incarnation = report.incarnation;
            one.member.health_message = report.message.clone();
            // The row has changed, and whoever moves it on in this transaction must know that.
            one.member.version += 1;
            if before != after {
                one.newly_broken = after == Health::Unhealthy;
                told.push(member_told(&one.member, before, report));
            }
        }
        // It changes with every piece of work and is nobody's news: the row alone knows it.
        if one.member.free_at != report.free_at
            && tx.member_free(report.member_id, report.incarnation, report.free_at).await?
        {
            one.member.free_at = report.free_at;
        }
        if let Some(detail) = &report.adapter_detail {
            let detail = Value::Object(detail.clone());
            if detail != one.member.adapter_detail
                && tx.member_detail(report.member_id, report.incarnation, detail, cx.now).await?
            {
                changed = true;
                one.member.version += 1;
            }
        }
    }
    Ok((seen, told, changed))
}

fn member_told(of: &Member, before: Health, report: &MemberReport) -> Told {
    let data = json!({"name": of.name, "component_key": of.component_key, "before": before, "health": of.health,
                      "message": report.message, "incarnation": of.incarnation});
    (EventType::MemberHealthChanged, member::path(of), data)
}

fn instance_told(of: &Instance, health: Health) -> Told {
    let event = match health {
        Health::Healthy => EventType::InstanceHealthy,
        _ => EventType::InstanceHealthChanged,
    };
    let data = json!({"name": of.name, "before": of.health, "health": health});
    (event, instance::path(of), data)
}
