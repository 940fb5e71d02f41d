//! Blocked children of an operation: the command line stops waiting on them and lists their actions.

use muster_api::operation as api;
use muster_ids::OperationId;
use muster_model::operation::{Operation, OperationState, StepState};

use super::blocked_view;
use super::evidence::without_node_paths;
use crate::{Cx, Result};

/// Returns the blocked descendants of an operation; empty while anything below it still advances.
///
/// Only children of the current step count: a child that an earlier step gave up on does not block.
pub(super) async fn blocked_by(cx: &Cx, operation: &Operation) -> Result<Vec<api::BlockedChild>> {
    let mut blocked = Vec::new();
    let mut unvisited = vec![operation.clone()];
    while let Some(parent) = unvisited.pop() {
        let open = open_children(cx, &parent).await?;
        if open.is_empty() {
            return Ok(Vec::new());
        }
        for id in open {
            let Some(child) = cx.platform.store.operation_lookup(id).await? else { continue };
            match (&child.blocked, child.state) {
                // It ended between the two reads, and wakes its parent.
                (_, state) if state.is_final() => return Ok(Vec::new()),
                (Some(why), OperationState::Blocked) => {
                    blocked.push(blocked_child(cx, &child, blocked_view(why)))
                }
                _ => unvisited.push(child),
            }
        }
    }
    blocked.sort_by_key(|child| child.operation_id);
    Ok(blocked)
}

/// Returns the unfinished children of an operation's current step.
async fn open_children(cx: &Cx, parent: &Operation) -> Result<Vec<OperationId>> {
    let children = cx.platform.store.operation_children(parent.id).await?;
    let of_step = current_step(parent).map(|step| format!("{step}/")).unwrap_or_default();
    let counts = |spawn_key: &str| spawn_key.is_empty() || spawn_key.starts_with(&of_step);
    let open = children.iter().filter(|child| !child.state.is_final() && counts(&child.spawn_key));
    Ok(open.map(|child| child.id).collect())
}

fn current_step(operation: &Operation) -> Option<&str> {
    let undoing = operation.steps.iter().rfind(|step| step.state == StepState::Undoing);
    let step = undoing.or_else(|| operation.current().map(|at| &operation.steps[at]));
    step.map(|step| step.name.as_str())
}

fn blocked_child(cx: &Cx, child: &Operation, mut blocked: api::Blocked) -> api::BlockedChild {
    if !cx.is_operator() {
        blocked.reason = without_node_paths(&blocked.reason);
    }
    api::BlockedChild {
        operation_id: child.id,
        kind: child.kind.to_string(),
        subject_kind: child.subject_kind.clone(),
        subject_name: child.subject_name.clone(),
        blocked,
    }
}
