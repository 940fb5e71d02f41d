//! Operations that the platform submits by itself: releasing expired allocations and instances, and cleaning up on nodes
//! that returned.
//!
//! An expiring allocation takes its members along: its release cascades, and is blocked where that would break an instance
//! or where the allocation is protected. Its owner is warned one hour and ten minutes before.

use jiff::Timestamp;
use muster_control::allocation::MEMBERS_WITHIN;
use muster_control::instance::decommission::{WITHIN, in_the_way};
use muster_control::operation::{item_of, superseded};
use muster_control::{Platform, allocation, instance};
use muster_db::{Lease, StoreError, Tx};
use muster_engine::allocation::{CLEAN, RELEASE, find_obstacle, is_for_expiry, is_kept, occupants};
use muster_engine::instance::DECOMMISSION;
use muster_engine::{Definition, OperationRequest, accept, go_on as retry, supersede};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::audit::{Actor, Target};
use muster_model::event::{EventType, Timeline};
use muster_model::instance::Instance;
use muster_model::operation::{Operation, OperationState};
use muster_model::operation_input::OperationInput;
use muster_model::origin::{Audited, Origin};
use serde_json::{Value, json};

/// Submits due operations, each in a transaction of its own, fenced by the sweeper's lease.
pub(crate) async fn open_due(platform: &Platform, lease: &Lease) -> Result<(), StoreError> {
    for (id, expires_at) in due_warnings(platform).await? {
        go_on(warn_of_expiry(platform, lease, id, expires_at).await, id)?;
    }
    for id in platform.store.allocation_expired(platform.env.now()).await? {
        go_on(open_expiry(platform, lease, id).await, id)?;
    }
    for instance in platform.store.instance_expired(platform.env.now(), AT_ONCE).await? {
        go_on(open_decommission(platform, lease, &instance).await, instance.id)?;
    }
    platform.expire_ssh_keys(lease).await?;
    for node in platform.store.quarantined_nodes().await? {
        for id in platform.store.quarantined_on(node).await? {
            go_on(open_clean(platform, lease, id).await, id)?;
        }
    }
    Ok(())
}

/// Returns the allocations with an expiry warning due.
async fn due_warnings(platform: &Platform) -> Result<Vec<(AllocationId, Timestamp)>, StoreError> {
    let now = platform.env.now();
    platform.store.allocation_expiring(now, now + WARNINGS[0], now + WARNINGS[1]).await
}

/// Warns the owner of an allocation that it expires soon; each warning once.
async fn warn_of_expiry(
    platform: &Platform,
    lease: &Lease,
    id: AllocationId,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    let now = platform.env.now();
    let Some(allocation) = platform.store.allocation_lookup(id).await? else { return Ok(()) };
    let members = platform.store.member_in(id).await?;
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let warnings = if now + WARNINGS[1] >= expires_at { 2 } else { 1 };
    let left = expires_at.duration_since(now).as_secs();
    let data = json!({"name": allocation.name, "expires_at": expires_at, "seconds_left": left,
                      "protected": allocation.protected, "members": names});
    let event = (EventType::AllocationExpiring, allocation::path(&allocation), data);
    let origin = Origin::platform(&platform.env, allocation.scope(), "expiry");
    let mut tx = platform.store.begin().await?;
    tx.lease_extend(lease, now).await?;
    tx.allocation_warned(id, warnings, expires_at).await?;
    tx.outbox_append(&platform.env, &origin, None, vec![event]).await?;
    tx.commit().await?;
    platform.sealer_wake.notify_one();
    Ok(())
}

/// Releases an expired allocation with the members in it. A blocked release resumes when its obstacle is gone.
async fn open_expiry(platform: &Platform, lease: &Lease, id: AllocationId) -> Result<(), StoreError> {
    let Some(allocation) = platform.store.allocation_lookup(id).await? else { return Ok(()) };
    let under_way = platform.store.operation_open_on(id.uuid()).await?;
    if let Some(kept) = under_way.iter().find(|operation| is_kept(operation)) {
        return match is_for_expiry(kept) && is_free_to_go(platform, &allocation).await? {
            true => resume_expired(platform, lease, kept).await,
            false => Ok(()),
        };
    }
    // Open operations go first; the next round retries. A blocked one is superseded, as by a user's command.
    let moves = |operation: &Operation| operation.state != OperationState::Blocked;
    if under_way.iter().any(|operation| moves(operation) || operation.kind == RELEASE.kind) {
        return Ok(());
    }
    let within = platform.options.timing.release + MEMBERS_WITHIN;
    let input = OperationInput { cascade: true, expired: true, ..OperationInput::because(EXPIRED) };
    open_on_allocation(platform, lease, &allocation, &RELEASE, within, input, under_way).await
}

/// Reports whether nothing prevents the release of an expired allocation any more.
async fn is_free_to_go(platform: &Platform, allocation: &Allocation) -> Result<bool, StoreError> {
    if allocation.protected {
        return Ok(false);
    }
    let found = occupants(&platform.store, &platform.engine.releases, allocation.id).await?;
    Ok(find_obstacle(&platform.store, &found, false).await?.is_none())
}

async fn resume_expired(platform: &Platform, lease: &Lease, kept: &Operation) -> Result<(), StoreError> {
    let now = platform.env.now();
    let mut tx = platform.store.begin().await?;
    tx.lease_extend(lease, now).await?;
    if let Some(mut fresh) = tx.operation_seize(kept.id).await?.filter(is_kept)
        && retry(&mut fresh, &RELEASE, platform.engine.timing(), now)
    {
        tx.operation_advance(&fresh, now, None).await?;
    }
    tx.commit().await?;
    platform.engine.wake.notify_one();
    Ok(())
}

async fn open_clean(platform: &Platform, lease: &Lease, id: AllocationId) -> Result<(), StoreError> {
    let Some(allocation) = platform.store.allocation_lookup(id).await? else { return Ok(()) };
    // Open operations go first; the next round retries.
    if !platform.store.operation_open_on(id.uuid()).await?.is_empty() {
        return Ok(());
    }
    let (within, input) = (platform.options.timing.release, OperationInput::because("its node is back"));
    open_on_allocation(platform, lease, &allocation, &CLEAN, within, input, Vec::new()).await
}

async fn open_on_allocation(
    platform: &Platform,
    lease: &Lease,
    allocation: &Allocation,
    definition: &'static Definition,
    within: jiff::SignedDuration,
    input: OperationInput,
    supersedes: Vec<Operation>,
) -> Result<(), StoreError> {
    let (now, id) = (platform.env.now(), allocation.id);
    let why = input.reason.clone();
    let mut operation = accept(
        definition,
        OperationRequest {
            id: platform.env.id(),
            scope: allocation.scope(),
            subject_kind: "allocation",
            subject_id: id.uuid(),
            subject_name: allocation.name.clone(),
            exclusive_locks: vec![id.uuid()],
            shared_locks: Vec::new(),
            timeline: Timeline::default(),
            asked_by: Actor::platform(why.clone()),
            correlation_id: muster_model::hex::encode(&platform.env.bytes::<16>()),
            input,
            deadline_at: now + within,
            parent_id: None,
            now,
        },
    );
    let told = json!({"name": allocation.name, "reason": why});
    let mut ended = Vec::new();
    let mut tx = platform.store.begin().await?;
    tx.lease_extend(lease, now).await?;
    for old in supersedes {
        if supersede(&mut tx, &platform.env, &old, &mut operation, now).await? {
            ended.push(old);
        }
    }
    tx.operation_open(&operation).await?;
    tell_opened(platform, &mut tx, &operation, allocation::path(allocation), told, &ended).await?;
    tx.commit().await?;
    platform.sealer_wake.notify_one();
    tracing::info!(operation_id = %operation.id, kind = %definition.kind, allocation_id = %id, why, "opened");
    platform.engine.wake.notify_one();
    Ok(())
}

/// Decommissions an expired instance. Open operations on it are superseded, as by a user's command.
async fn open_decommission(
    platform: &Platform,
    lease: &Lease,
    instance: &Instance,
) -> Result<(), StoreError> {
    let (now, id) = (platform.env.now(), instance.id);
    let touching = platform.store.operations_locking(id.uuid()).await?;
    if touching.iter().any(|operation| operation.kind == DECOMMISSION.kind) {
        return Ok(());
    }
    let why = "it has expired";
    let mut operation = accept(
        &DECOMMISSION,
        OperationRequest {
            id: platform.env.id(),
            scope: instance.scope(),
            subject_kind: "instance",
            subject_id: id.uuid(),
            subject_name: instance.name.clone(),
            exclusive_locks: vec![id.uuid()],
            shared_locks: Vec::new(),
            timeline: Timeline::of_instance(id),
            asked_by: Actor::platform(why),
            correlation_id: muster_model::hex::encode(&platform.env.bytes::<16>()),
            input: OperationInput::because(why),
            deadline_at: now + WITHIN,
            parent_id: None,
            now,
        },
    );
    operation.items = platform.store.member_living(id).await?.iter().map(item_of).collect();
    let told = json!({"name": instance.name, "force": false, "reason": why});
    let mut ended = Vec::new();
    let mut tx = platform.store.begin().await?;
    tx.lease_extend(lease, now).await?;
    for old in in_the_way(instance, touching) {
        if supersede(&mut tx, &platform.env, &old, &mut operation, now).await? {
            ended.push(old);
        }
    }
    tx.operation_open(&operation).await?;
    // It may have been protected or extended since it was read.
    let held = tx.instance_hold(id).await?;
    if held.is_none_or(|held| held.protected || held.expires_at.is_none_or(|time| time > now)) {
        tx.rollback().await;
        return Ok(());
    }
    tell_opened(platform, &mut tx, &operation, instance::path(instance), told, &ended).await?;
    tx.commit().await?;
    platform.sealer_wake.notify_one();
    tracing::info!(operation_id = %operation.id, kind = %operation.kind, instance_id = %id, why, "opened");
    platform.engine.wake.notify_one();
    Ok(())
}

/// Appends the effects of a command to the outbox: the audit entry, the acceptance, and the superseded operations.
async fn tell_opened(
    platform: &Platform,
    tx: &mut Tx,
    operation: &Operation,
    subject: String,
    mut told: Value,
    ended: &[Operation],
) -> Result<(), StoreError> {
    let (env, now) = (&platform.env, operation.created_at);
    told["operation_id"] = json!(operation.id);
    told["kind"] = json!(operation.kind);
    if !ended.is_empty() {
        told["supersedes"] = json!(ended.iter().map(|old| old.id).collect::<Vec<_>>());
    }
    let target = Target {
        kind: operation.subject_kind.clone(),
        id: operation.subject_id.to_string(),
        name: Some(operation.subject_name.clone()),
    };
    let audited = Audited::success(operation.kind.as_str(), target, told.clone());
    let accepted = vec![(EventType::OperationAccepted, subject, told)];
    tx.outbox_append(env, &Origin::operation(operation, now), Some(audited), accepted).await?;
    for old in ended {
        let origin = Origin { timeline: old.timeline, ..Origin::operation(operation, now) };
        tx.outbox_append(env, &origin, None, vec![superseded(old, operation.id)]).await?;
    }
    Ok(())
}

/// Logs an error and continues: one failure must not delay the others, and the next round retries. Only a lost lease stops
/// the round.
fn go_on(opened: Result<(), StoreError>, what: impl std::fmt::Display) -> Result<(), StoreError> {
    match opened {
        Err(error) if !matches!(error, StoreError::Fenced) => {
            tracing::warn!(%error, %what, "a due operation could not be submitted; retrying");
            Ok(())
        }
        other => other,
    }
}

/// Maximum number of instances per round.
const AT_ONCE: i64 = 50;

/// Times before the expiry at which an allocation's owner is warned.
const WARNINGS: [jiff::SignedDuration; 2] =
    [jiff::SignedDuration::from_hours(1), jiff::SignedDuration::from_mins(10)];

/// Reason of a release on expiry.
const EXPIRED: &str = "it has expired";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unopenable_operation_does_not_delay_the_others() {
        assert!(go_on(Ok(()), "a").is_ok());
        assert!(go_on(Err(StoreError::Conflict("another request was faster".to_owned())), "a").is_ok());
        assert!(go_on(Err(StoreError::Stale), "a").is_ok());
        assert!(matches!(go_on(Err(StoreError::Fenced), "a"), Err(StoreError::Fenced)));
    }
}
