//! Complete a reconcile step: the adapter reports the health of an instance's members.
//!
//! Each report applies to the incarnation that it names. Rows, events and audit entries are written only for changes: a
//! reconcile that finds none leaves nothing but its time.

use jiff::SignedDuration;
use muster_api::adapter_step::{self as api, AdapterStepComplete, RefusedReport, ReportRefusal};
use muster_db::{StoreError, Tx};
use muster_ids::{OperationId, TypedId as _};
use muster_manifest::Manifest;
use muster_model::adapter::AdapterStep;
use muster_model::assess::AdapterReport;
use muster_model::instance::Instance;
use serde_json::Value;

use super::complete::{audited, end};
use super::{origin, refuse_adapter, view};
use crate::health::{Assessed, Facts, assess_in};
use crate::instance::manifest_of;
use crate::{Answer, Cx, Error, Result};

/// Completes a reconcile step.
pub(super) async fn reconciled(cx: &Cx, step: &AdapterStep, body: AdapterStepComplete) -> Result<Answer> {
    let store = &cx.platform.store;
    let gone = || Error::from(StoreError::Gone("instance".to_owned()));
    let instance = store.instance_lookup(step.instance_id).await?.ok_or_else(gone)?;
    let (_, manifest) = manifest_of(cx, &instance, instance.app_version_id).await?;
    let mut tx = store.begin().await?;
    match write(cx, &mut tx, step, manifest, &body).await {
        Ok(Reconciled { ended, opened, refused_reports }) => {
            tx.commit().await?;
            cx.platform.sealer_wake.notify_one();
            if opened {
                cx.platform.engine.wake.notify_one();
            }
            Ok(Answer::new(&api::AdapterStep { refused_reports, ..view(&ended) }))
        }
        Err(error) => {
            tx.rollback().await;
            Err(refuse_adapter(error))
        }
    }
}

/// Result of a completed reconcile step.
struct Reconciled {
    ended: AdapterStep,
    /// Whether an operation was submitted.
    opened: bool,
    refused_reports: Vec<RefusedReport>,
}

/// Writes the completion.
async fn write(
    cx: &Cx,
    tx: &mut Tx,
    step: &AdapterStep,
    manifest: Manifest,
    body: &AdapterStepComplete,
) -> muster_db::Result<Reconciled> {
    let gone = || StoreError::Gone("instance".to_owned());
    // Locks the instance's row first, as the lease of a reconcile step does: opposite lock orders would deadlock.
    let instance = tx.instance_hold(step.instance_id).await?.ok_or_else(gone)?;
    let mut facts = Facts { manifest, places: tx.member_places_now(instance.id).await? };
    let ended = end(cx, tx, step, body).await?;
    let (mut changed, refused_reports) = reports(cx, tx, &instance, &mut facts, body).await?;
    if let Some(mode) = &body.topology_mode {
        changed |= tx.instance_topology(instance.id, mode, cx.now).await?;
    }
    tx.instance_adapter_heard(instance.id, cx.now + facts.silence(body.reconcile_after_seconds)).await?;
    let Assessed { told, opened } = assess_in(cx, tx, &instance, &facts).await?;
    let wish = body.reconcile_after_seconds.unwrap_or(facts.manifest.reconcile_seconds.into());
    tx.instance_reconciled(instance.id, cx.now, cx.now + SignedDuration::from_secs(wish)).await?;
    changed |= !told.is_empty();
    let tasks = OperationId::from_uuid(step.id.uuid());
    if changed {
        tx.task_expire_of(tasks, cx.now).await?;
        cx.outbox_append(tx, &origin(cx, step), Some(audited(step, &ended)), told).await?;
    } else {
        tx.task_forget_of(tasks).await?;
        tx.adapter_step_forget(step.id).await?;
    }
    Ok(Reconciled { ended, opened, refused_reports })
}

/// Stores the member reports. Returns whether any of them differs from the previous report, and the rejected ones: reports
/// on an unknown member or on another incarnation of its cell. The adapter may have read the instance slightly too early, so
/// the other reports still count.
async fn reports(
    cx: &Cx,
    tx: &mut Tx,
    instance: &Instance,
    facts: &mut Facts,
    body: &AdapterStepComplete,
) -> muster_db::Result<(bool, Vec<RefusedReport>)> {
    let (mut changed, mut refused) = (false, Vec::new());
    let living = tx.member_living_now(instance.id).await?;
    for report in body.members.iter().flatten() {
        let member = living.iter().find(|member| member.id == report.member_id);
        let Some(member) = member.filter(|member| member.incarnation == report.incarnation) else {
            let reason = match member {
                Some(_) => ReportRefusal::StaleIncarnation,
                None => ReportRefusal::UnknownMember,
            };
            let (member_id, incarnation) = (report.member_id, report.incarnation);
            refused.push(RefusedReport { member_id, incarnation, reason });
            continue;
        };
        let said = AdapterReport {
            incarnation: report.incarnation,
            health: report.health,
            message: report.message.clone(),
        };
        let place = facts.places.iter_mut().find(|place| place.member_id == member.id);
        if let Some(place) = place.filter(|place| place.report.as_ref() != Some(&said)) {
            changed |= tx.member_report(member.id, &said, cx.now).await?;
            place.report = Some(said);
        }
        // It changes with every job, so it is stored in the row alone, without an event.
        if member.free_at != report.free_at {
            tx.member_free(report.member_id, report.incarnation, report.free_at).await?;
        }
        if let Some(detail) = &report.adapter_detail {
            let detail = Value::Object(detail.clone());
            changed |= detail != member.adapter_detail
                && tx.member_detail(report.member_id, report.incarnation, detail, cx.now).await?;
        }
    }
    Ok((changed, refused))
}
