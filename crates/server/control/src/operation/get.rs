//! Show an operation, and optionally wait for its end.

use std::time::Duration;

use muster_api::operation::OperationGetQuery;
use muster_authz::Permission;
use muster_ids::OperationId;
use muster_model::operation::{Operation, OperationState};
use tokio::sync::broadcast;

use super::blocked_children::blocked_by;
use super::{view_for, witness};
use crate::{Answer, Cx, Result};

/// Shortest and longest poll interval of a waiting request: the engine may be on another replica, and its commits send no
/// wake-up here.
const SOON: Duration = Duration::from_millis(50);
const SELDOM: Duration = Duration::from_millis(400);

/// Interval at which a waiting request revalidates its credential, within the five-second limit for revocation.
const RECHECK: Duration = Duration::from_secs(2);

/// Handles `operation_get`.
pub async fn get(cx: &Cx, reference: &str, query: OperationGetQuery) -> Result<Answer> {
    let mut operation = cx.operation(reference).await?;
    cx.authorize(Permission::OperationGet, operation.scope(), "operation")?;
    let seconds = u64::from(query.wait_seconds.unwrap_or(0));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
    let mut pause = SOON;
    let mut cx = cx.clone();
    let mut checked = tokio::time::Instant::now();
    // Subscribe before the query, so that an end during it wakes this request.
    let mut ended = cx.platform.ended.subscribe();
    while !rests(&operation) && tokio::time::Instant::now() < deadline {
        // A credential revoked during the wait gets no response: a wait may outlast a revocation.
        if checked.elapsed() >= RECHECK {
            cx = cx.again().await?;
            checked = tokio::time::Instant::now();
        }
        operation = cx.operation(reference).await?;
        cx.authorize(Permission::OperationGet, operation.scope(), "operation")?;
        if rests(&operation) {
            break;
        }
        let _resting = cx.rest();
        tokio::select! {
            () = until(&mut ended, operation.id) => {}
            () = tokio::time::sleep(pause) => pause = (pause * 3 / 2).min(SELDOM),
        }
    }
    let mut view = view_for(cx.is_operator(), &operation);
    if !rests(&operation) {
        view.blocked_by = blocked_by(&cx, &operation).await?;
    }
    let ids: Vec<_> = operation.steps.iter().filter_map(|step| step.witness_id).collect();
    let all = cx.platform.store.witness_list(operation.subject_id).await?;
    view.witnesses = all
        .iter()
        .filter(|found| ids.contains(&found.id))
        .map(|found| witness(cx.is_operator(), found))
        .collect();
    Ok(Answer::new(&view))
}

/// Waits for the end of an operation that this server's engine executes. A receiver that lagged behind returns at once, and
/// the caller queries.
async fn until(ended: &mut broadcast::Receiver<OperationId>, id: OperationId) {
    loop {
        match ended.recv().await {
            Ok(other) if other != id => {}
            _ => return,
        }
    }
}

fn rests(operation: &Operation) -> bool {
    operation.state.is_final() || operation.state == OperationState::Blocked
}
