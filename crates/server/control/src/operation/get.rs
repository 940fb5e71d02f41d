//! Show an operation, and wait for its end if asked to.

use std::time::Duration;

use muster_api::operations::OperationGetQuery;
use muster_authz::Permission;
use muster_ids::OperationId;
use muster_model::operation::{Operation, OperationState};
use tokio::sync::broadcast;

use super::blocked::blocked_by;
use super::{view_for, witness};
use crate::refuse::{Result, refuse};
use crate::{Answer, Cx};

/// How soon a waiting request looks again by itself, and how seldom at last: the engine may be on another replica, whose commits
/// wake nobody here.
const SOON: Duration = Duration::from_millis(50);
const SELDOM: Duration = Duration::from_millis(400);

/// How often a waiting request checks its credential again: within the five seconds in which a revoked one must be dead.
const RECHECK: Duration = Duration::from_secs(2);

/// Answers `operation_get`.
pub async fn get(cx: &Cx, reference: &str, query: OperationGetQuery) -> Result<Answer> {
    let mut operation = cx.operation(reference).await?;
    cx.authorize(Permission::OperationGet, operation.scope(), "operation")?;
    let seconds = u64::from(query.wait_seconds.unwrap_or(0));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
    let mut pause = SOON;
    let mut cx = cx.clone();
    let mut checked = tokio::time::Instant::now();
    // Before the look, so that an end during it is not slept over.
    let mut ended = cx.platform.ended.subscribe();
    while !rests(&operation) && tokio::time::Instant::now() < deadline {
        // What was revoked meanwhile is not answered: a wait is longer than a revocation takes.
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
    let all = cx.platform.store.witness_list(operation.subject_id).await.map_err(refuse)?;
    view.witnesses = all
        .iter()
        .filter(|found| ids.contains(&found.id))
        .map(|found| witness(cx.is_operator(), found))
        .collect();
    Ok(Answer::new(&view))
}

/// Waits for the end of an operation, as far as this server brings it about. Who fell behind looks.
async fn until(ended: &mut broadcast::Receiver<OperationId>, id: OperationId) {
    loop {
        match ended.recv().await {
            Ok(other) if other != id => {}
            _ => return,
        }
    }
}

fn rests(operation: &Operation) -> bool {
    operation.state.is_final() || operation.state == OperationState::Parked
}
