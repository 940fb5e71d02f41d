//! Releases an allocation: ensure that it can be released · remove its members, if it cascades · keep logs · destroy ·
//! verify that it is gone · wipe · verify that it is wiped · free. A forced one ends before the destruction if the node is
//! unreachable, and leaves the rest in quarantine.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::{Env, OperationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::operation::{Operation, OperationKind, OperationState};
use muster_model::operation_input::OperationInput;

use super::destroy::DESTROY;
use super::ensure_releasable::ENSURE_RELEASABLE;
use super::free::FREE;
use super::keep_logs::KEEP_LOGS;
use super::quarantine::settle;
use super::remove_members::REMOVE_MEMBERS;
use super::verify_destroyed::VERIFY_DESTROYED;
use super::verify_wiped::VERIFY_WIPED;
use super::wipe::WIPE;
use crate::advance::at_step;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure};
use crate::{OperationRequest, Timing, accept, supersede};

/// `allocation.release`. It cannot be rolled back: a stuck one is blocked.
pub const RELEASE: Definition = Definition {
    kind: OperationKind::AllocationRelease,
    steps: &[
        ENSURE_RELEASABLE,
        REMOVE_MEMBERS,
        KEEP_LOGS,
        DESTROY,
        VERIFY_DESTROYED,
        WIPE,
        VERIFY_WIPED,
        FREE,
    ],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Attest,
    resolvable_by: "operator",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// Reports whether a release is blocked before it took anything: by protection, or because its members are needed. Only such
/// a release can be dropped or superseded by another.
pub fn is_kept(operation: &Operation) -> bool {
    operation.kind == RELEASE.kind
        && operation.state == OperationState::Blocked
        && at_step(operation) == Some(ENSURE_RELEASABLE.name)
}

/// Reports whether a release is due to expiry.
pub fn is_for_expiry(operation: &Operation) -> bool {
    operation.kind == RELEASE.kind && operation.input.expired
}

/// Cancels a release that is blocked before it took anything, because its reason no longer applies. Reports whether it was
/// such a release.
pub async fn drop_kept(tx: &mut Tx, id: OperationId, why: &str, now: Timestamp) -> Result<bool> {
    let Some(mut kept) = tx.operation_seize(id).await?.filter(is_kept) else { return Ok(false) };
    kept.state = OperationState::Cancelled;
    (kept.blocked, kept.waiting) = (None, None);
    kept.reason = Some("cancelled".to_owned());
    kept.message = Some(why.to_owned());
    tx.operation_end(&kept, now).await?;
    Ok(true)
}

/// Opens the release of an allocation as a child of `parent`. The operations under way on it are superseded.
pub async fn open_release(
    tx: &mut Tx,
    env: &Env,
    allocation: &Allocation,
    under_way: impl IntoIterator<Item = Operation>,
    parent: &Operation,
    timing: &Timing,
    now: Timestamp,
) -> Result<Operation> {
    let mut release = accept(
        &RELEASE,
        OperationRequest {
            id: env.id(),
            scope: allocation.scope(),
            subject_kind: "allocation",
            subject_id: allocation.id.uuid(),
            subject_name: allocation.name.clone(),
            exclusive_locks: vec![allocation.id.uuid()],
            shared_locks: Vec::new(),
            timeline: parent.timeline,
            asked_by: parent.asked_by.clone(),
            correlation_id: parent.correlation_id.clone(),
            input: OperationInput::default(),
            deadline_at: now + timing.release,
            parent_id: Some(parent.id),
            now,
        },
    );
    for old in under_way {
        // Boxed: superseding a replacement releases its reservation.
        Box::pin(supersede(tx, env, &old, &mut release, now)).await?;
    }
    tx.operation_open(&release).await?;
    Ok(release)
}
