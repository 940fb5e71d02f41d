//! Which children block an operation: the command line ends its wait with them, and names their actions.

use muster_api::operations as api;
use muster_ids::OperationId;
use muster_model::operation::{Operation, OperationState, StepState};

use super::evidence::without_node_paths;
use super::parked;
use crate::Cx;
use crate::refuse::{Result, refuse};

/// Blocked descendants of an operation, empty as long as anything below it still advances.
///
/// Only the children of the step that the operation is at count: a child that an earlier step gave up on blocks nobody.
pub(super) async fn blocked_by(cx: &Cx, operation: &Operation) -> Result<Vec<api::BlockedChild>> {
    let mut blocked = Vec::new();
    let mut unvisited = vec![operation.clone()];
    while let Some(parent) = unvisited.pop() {
        let open = open_children(cx, &parent).await?;
        if open.is_empty() {
            return Ok(Vec::new());
        }
        for id in open {
            let Some(child) = cx.platform.store.operation_lookup(id).await.map_err(refuse)? else { continue };
            match (&child.parked, child.state) {
                // It ended between the two reads, and wakes its parent.
                (_, state) if state.is_final() => return Ok(Vec::new()),
                (Some(why), OperationState::Parked) => blocked.push(blocked_child(cx, &child, parked(why))),
                _ => unvisited.push(child),
            }
        }
    }
    blocked.sort_by_key(|child| child.operation_id);
    Ok(blocked)
}

/// The unfinished children of the step that an operation is at.
async fn open_children(cx: &Cx, parent: &Operation) -> Result<Vec<OperationId>> {
    let children = cx.platform.store.operation_children(parent.id).await.map_err(refuse)?;
    let of_step = current_step(parent).map(|step| format!("{step}/")).unwrap_or_default();
    let counts = |opened_for: &str| opened_for.is_empty() || opened_for.starts_with(&of_step);
    let open = children.iter().filter(|child| !child.state.is_final() && counts(&child.opened_for));
    Ok(open.map(|child| child.id).collect())
}

fn current_step(operation: &Operation) -> Option<&str> {
    let undoing = operation.steps.iter().rfind(|step| step.state == StepState::Undoing);
    let step = undoing.or_else(|| operation.current().map(|at| &operation.steps[at]));
    step.map(|step| step.name.as_str())
}

fn blocked_child(cx: &Cx, child: &Operation, mut parked: api::Parked) -> api::BlockedChild {
    if !cx.is_operator() {
        parked.reason = without_node_paths(&parked.reason);
    }
    api::BlockedChild {
        operation_id: child.id,
        kind: child.kind.clone(),
        subject_kind: child.subject_kind.clone(),
        subject_name: child.subject_name.clone(),
        parked,
    }
}
