//! Show an operation, and wait for its end if asked to.

use std::time::Duration;

use muster_api::operations::OperationGetQuery;
use muster_authz::Permission;
use muster_model::operation::{Operation, OperationState};

use super::{view, witness};
use crate::refuse::{Result, refuse};
use crate::{Answer, Cx};

/// How soon a waiting request looks again, and how seldom at last: most operations are over in a moment, and the others take
/// their time. The engine may be on another replica, whose commits wake nobody here.
const SOON: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_millis(200);

/// Answers `operation_get`.
pub async fn get(cx: &Cx, reference: &str, query: OperationGetQuery) -> Result<Answer> {
    let mut operation = cx.operation(reference).await?;
    cx.authorize(Permission::OperationGet, operation.scope(), "operation")?;
    let seconds = u64::from(query.wait_seconds.unwrap_or(0));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
    let mut pause = SOON;
    while !rests(&operation) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(SELDOM);
        operation = cx.operation(reference).await?;
    }
    let mut view = view(&operation);
    let ids: Vec<_> = operation.steps.iter().filter_map(|step| step.witness_id).collect();
    let all = cx.platform.store.witness_list(operation.subject_id).await.map_err(refuse)?;
    view.witnesses = all.iter().filter(|found| ids.contains(&found.id)).map(witness).collect();
    Ok(Answer::new(&view))
}

fn rests(operation: &Operation) -> bool {
    operation.state.is_final() || operation.state == OperationState::Parked
}
