//! Giving an allocation back, honestly: keep logs · destroy · see that it is gone · wipe · see that it is wiped · free.

use jiff::Timestamp;
use muster_ids::{OperationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::operation::Operation;
use muster_store::{Result, Tx};
use serde_json::json;

use super::destroy::DESTROY;
use super::free::FREE;
use super::keep_logs::KEEP_LOGS;
use super::verify_gone::VERIFY_GONE;
use super::verify_wiped::VERIFY_WIPED;
use super::wipe::WIPE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use crate::{Open, Timing, open, supersede};

/// `allocation.release`. There is no way back from it: what cannot go on is parked.
pub const RELEASE: Definition = Definition {
    kind: "allocation.release",
    steps: &[KEEP_LOGS, DESTROY, VERIFY_GONE, WIPE, VERIFY_WIPED, FREE],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Attest,
    unblock_by: "operator",
    settle: nothing_to_settle,
};

/// Opens the release of an allocation as a part of `parent`. Whatever else is under way on it is superseded.
pub async fn open_release(
    tx: &mut Tx,
    allocation: &Allocation,
    under_way: Option<Operation>,
    id: OperationId,
    parent: &Operation,
    timing: &Timing,
    now: Timestamp,
) -> Result<Operation> {
    let mut release = open(
        &RELEASE,
        Open {
            id,
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
        supersede(tx, &old, &mut release, now).await?;
    }
    tx.operation_open(&release).await?;
    Ok(release)
}
