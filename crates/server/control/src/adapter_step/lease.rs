//! Lease adapter steps, with long polling.

use std::pin::pin;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::adapter_step::{AdapterIs, AdapterStepLease, CONTRACT, Leased};
use muster_authz::Permission;
use muster_db::Tx;
use muster_ids::{AdapterId, ServiceAccountId};
use muster_model::adapter::{Adapter, AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::event::EventType;
use muster_model::instance::{Instance, InstanceState};
use muster_model::origin::Audited;
use serde_json::json;

use super::{account, lease_length, origin, path};
use crate::commit::target;
use crate::{Answer, Cx, Error, Result};

/// Default maximum number of steps per response.
const MOST: i64 = 16;
/// Interval at which a waiting adapter's heartbeat is recorded.
const STILL_HERE: Duration = Duration::from_secs(10);
/// Expiry of a reconcile step, and earliest time of the instance's next one. An unfinished step is offered again when its
/// lease expires.
const ONE_LOOK: SignedDuration = SignedDuration::from_mins(10);

/// Handles `adapter_step_lease`.
pub async fn lease(cx: &Cx, project: &str, body: AdapterStepLease) -> Result<Answer> {
    let (_, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AdapterStepLease, scope, "project")?;
    let account = account(cx)?;
    speaks(&body.adapter)?;
    let platform = &cx.platform;
    let request = LeaseRequest {
        account,
        holder: body.adapter.name.clone(),
        length: lease_length(body.lease_seconds),
        most: body.most.unwrap_or(MOST),
    };
    let mut over = pin!(tokio::time::sleep(Duration::from_secs(body.wait_seconds.unwrap_or(0).min(60))));
    let mut stopping = platform.stopping.subscribe();
    let seat = platform.leases.enter(account);
    loop {
        // Subscribe before the query, so that a step queued meanwhile wakes this request.
        let mut woken = pin!(seat.notify.notified());
        woken.as_mut().enable();
        // The credential may have been revoked during the wait; it must not lease steps that other adapters could run.
        let cx = &cx.again().await?;
        cx.authorize(Permission::AdapterStepLease, scope, "project")?;
        let now = cx.now;
        note(cx, account, &body.adapter, now).await?;
        let taken = take(cx, &request, now).await?;
        if !taken.is_empty() {
            let steps = super::snapshot::with_snapshots(cx, taken).await?;
            return Ok(Answer::new(&Leased { steps }));
        }
        let nothing = || Ok(Answer::new(&Leased { steps: Vec::new() }));
        if *stopping.borrow_and_update() {
            return nothing();
        }
        let _resting = cx.rest();
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(STILL_HERE) => {}
            () = &mut over => return nothing(),
            // The adapter retries on another replica and does not delay this one's shutdown.
            _ = stopping.changed() => return nothing(),
        }
    }
}

fn speaks(adapter: &AdapterIs) -> Result<()> {
    if adapter.contract > CONTRACT {
        let why = format!(
            "this platform supports versions 1 to {CONTRACT} of the contract, and this adapter {}: run an \
             older adapter, or upgrade the platform",
            adapter.contract
        );
        return Err(Error::field("/adapter/contract", why));
    }
    Ok(())
}

/// A lease request.
struct LeaseRequest {
    account: ServiceAccountId,
    holder: String,
    length: SignedDuration,
    most: i64,
}

/// Records the adapter's heartbeat, unless one was recorded recently.
async fn note(cx: &Cx, account: ServiceAccountId, adapter: &AdapterIs, now: Timestamp) -> Result<()> {
    let platform = &cx.platform;
    let muster_authz::PrincipalKind::ServiceAccount { tenant, project, .. } = cx.principal()?.kind else {
        return Ok(());
    };
    if !platform.leases.is_news(account, &adapter.name, now) {
        return Ok(());
    }
    let seen = Adapter {
        id: platform.env.id::<AdapterId>(),
        tenant_id: tenant,
        project_id: project,
        service_account_id: account,
        name: adapter.name.clone(),
        adapter_version: adapter.version.clone(),
        contract_version: adapter.contract,
        created_at: now,
        seen_at: now,
    };
    let mut tx = platform.store.begin().await?;
    tx.adapter_seen(&seen).await?;
    tx.commit().await.map_err(Error::from)
}

/// Leases due steps. When idle this costs two reads and no commit.
async fn take(cx: &Cx, request: &LeaseRequest, now: Timestamp) -> Result<Vec<AdapterStep>> {
    let store = &cx.platform.store;
    let (steps, looks) = tokio::try_join!(
        store.adapter_step_any(request.account, now),
        store.instance_reconcile_any(request.account, now)
    )?;
    if !steps && !looks {
        return Ok(Vec::new());
    }
    let mut tx = store.begin().await?;
    match write(cx, &mut tx, request, now).await {
        Ok(taken) => {
            tx.commit().await?;
            cx.platform.sealer_wake.notify_one();
            Ok(taken)
        }
        Err(error) => {
            tx.rollback().await;
            Err(Error::from(error))
        }
    }
}

async fn write(
    cx: &Cx,
    tx: &mut Tx,
    request: &LeaseRequest,
    now: Timestamp,
) -> muster_db::Result<Vec<AdapterStep>> {
    let lapsed = tx.adapter_step_lapse(request.account, now, request.most).await?;
    for step in lapsed.iter().filter(|step| step.verb != AdapterVerb::Reconcile) {
        let data = json!({"verb": step.verb, "holder": step.holder, "generation": step.generation,
                          "instance_id": step.instance_id, "operation_id": step.operation_id});
        cx.outbox_append(tx, &origin(cx, step), None, vec![(EventType::AdapterStepLapsed, path(step), data)])
            .await?;
    }
    let mut taken = lease_steps(tx, request, now, request.most).await?;
    let room = request.most - i64::try_from(taken.len()).unwrap_or(request.most);
    if room > 0 {
        let due = tx.instance_reconcile_take(request.account, now, now + ONE_LOOK, room).await?;
        for instance in due.iter().filter(|instance| instance.state == InstanceState::Running) {
            tx.adapter_step_queue(&look_at(cx, instance, now)).await?;
        }
        if !due.is_empty() {
            taken.extend(lease_steps(tx, request, now, room).await?);
        }
    }
    let mut given = Vec::with_capacity(taken.len());
    for step in taken {
        if step.verb == AdapterVerb::Reconcile {
            // An instance that is being decommissioned is not reconciled any more.
            let instance = tx.instance_now(step.instance_id).await?;
            if instance.is_none_or(|instance| instance.state != InstanceState::Running) {
                tx.adapter_step_forget(step.id).await?;
                continue;
            }
        } else {
            // A scheduled reconcile is audited only if it finds something.
            granted(cx, tx, &step).await?;
        }
        given.push(step);
    }
    Ok(given)
}

async fn lease_steps(
    tx: &mut Tx,
    request: &LeaseRequest,
    now: Timestamp,
    most: i64,
) -> muster_db::Result<Vec<AdapterStep>> {
    tx.adapter_step_lease(request.account, &request.holder, now, request.length, most).await
}

async fn granted(cx: &Cx, tx: &mut Tx, step: &AdapterStep) -> muster_db::Result<()> {
    let data = json!({"verb": step.verb, "holder": step.holder, "generation": step.generation,
                      "attempts": step.attempts, "instance_id": step.instance_id, "member_id": step.member_id,
                      "operation_id": step.operation_id});
    let named = target("adapter_step", step.id, step.verb.as_str());
    let audited = Audited::success(Permission::AdapterStepLease.as_str(), named, data.clone());
    cx.outbox_append(
        tx,
        &origin(cx, step),
        Some(audited),
        vec![(EventType::AdapterStepLeased, path(step), data)],
    )
    .await
}

/// Builds a reconcile step for an instance.
fn look_at(cx: &Cx, instance: &Instance, now: Timestamp) -> AdapterStep {
    AdapterStep {
        id: cx.platform.env.id(),
        tenant_id: instance.tenant_id,
        project_id: instance.project_id,
        app_id: instance.app_id,
        instance_id: instance.id,
        member_id: None,
        incarnation: 0,
        operation_id: None,
        key: AdapterVerb::Reconcile.as_str().to_owned(),
        verb: AdapterVerb::Reconcile,
        operator_account_id: instance.operator_account_id,
        input: json!({}),
        state: AdapterStepState::Queued,
        generation: 0,
        holder: String::new(),
        leased_until: None,
        due_at: now,
        attempts: 0,
        message: None,
        percent: None,
        reason: None,
        adapter_detail: None,
        correlation_id: cx.correlation_id.clone(),
        created_at: now,
        expires_at: now + ONE_LOOK,
        finished_at: None,
    }
}
