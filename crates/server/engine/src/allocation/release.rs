//! Giving an allocation back, honestly: make sure that nothing keeps it · remove the members in it, if it cascades · keep logs ·
//! destroy · verify that it is gone · wipe · verify that it is wiped · free.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::{OperationId, TypedId as _, World};
use muster_model::allocation::Allocation;
use muster_model::operation::{Operation, OperationState};
use serde_json::json;

use super::destroy::DESTROY;
use super::ensure_releasable::{ENSURE_RELEASABLE, is_expiry};
use super::free::FREE;
use super::keep_logs::KEEP_LOGS;
use super::remove_members::REMOVE_MEMBERS;
use super::verify_gone::VERIFY_GONE;
use super::verify_wiped::VERIFY_WIPED;
use super::wipe::WIPE;
use crate::advance::at_step;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use crate::{Open, Timing, open, supersede};

/// `allocation.release`. There is no way back from it: what cannot go on is parked.
pub const RELEASE: Definition = Definition {
    kind: "allocation.release",
    steps: &[ENSURE_RELEASABLE, REMOVE_MEMBERS, KEEP_LOGS, DESTROY, VERIFY_GONE, WIPE, VERIFY_WIPED, FREE],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Attest,
    unblock_by: "operator",
    settle: nothing_to_settle,
};

/// Whether a release is blocked before anything was taken: by protection, or by what the members in it are needed for. Only such
/// a one can be dropped or superseded by another release.
pub fn is_kept(operation: &Operation) -> bool {
    operation.kind == RELEASE.kind
        && operation.state == OperationState::Parked
        && at_step(operation) == Some(ENSURE_RELEASABLE.name)
}

/// Whether the clock asked for a release.
pub fn is_for_expiry(operation: &Operation) -> bool {
    operation.kind == RELEASE.kind && is_expiry(&operation.input)
}

/// Drops a release that is blocked before anything was taken, because its reason is over: it ends as cancelled. Says whether it
/// was such a one.
pub async fn drop_kept(tx: &mut Tx, id: OperationId, why: &str, now: Timestamp) -> Result<bool> {
    let Some(mut kept) = tx.operation_seize(id).await?.filter(is_kept) else { return Ok(false) };
    kept.state = OperationState::Cancelled;
    (kept.parked, kept.waiting) = (None, None);
    kept.reason = Some("cancelled".to_owned());
    kept.message = Some(why.to_owned());
    tx.operation_end(&kept, now).await?;
    Ok(true)
}

/// Opens the release of an allocation as a part of `parent`. Whatever else is under way on it is superseded.
pub async fn open_release(
    tx: &mut Tx,
    world: &World,
    allocation: &Allocation,
    under_way: Option<Operation>,
    parent: &Operation,
    timing: &Timing,
    now: Timestamp,
) -> Result<Operation> {
    let mut release = open(
        &RELEASE,
        Open {
            id: world.id(),
            scope: allocation.scope(),
            subject_kind: "allocation",
            subject_id: allocation.id.uuid(),
            subject_name: allocation.name.clone(),
            touches: vec![allocation.id.uuid()],
            shares: Vec::new(),
            asked_by: parent.asked_by.clone(),
            correlation_id: parent.correlation_id.clone(),
            input: json!({}),
            deadline_at: now + timing.release,
            parent_id: Some(parent.id),
            now,
        },
    );
    if let Some(old) = under_way {
        // Boxed: superseding a replacement releases what it reserved.
        Box::pin(supersede(tx, world, &old, &mut release, now)).await?;
    }
    tx.operation_open(&release).await?;
    Ok(release)
}
