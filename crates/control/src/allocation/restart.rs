//! Make an allocation's place anew, on the same node.

use muster_api::allocation::AllocationAct;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_model::allocation::AllocationState;
use muster_operations::allocation::RESTART;
use serde_json::json;

use super::act::{Act, act, without_cells};
use crate::{Commit, Cx, Result};

/// Prepares `allocation_restart`. What runs in its cells would end with the place, so that is asked for cell by cell.
pub async fn restart(cx: &Cx, project: &str, reference: &str, body: AllocationAct) -> Result<Commit> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationRestart, allocation.scope(), "allocation")?;
    if allocation.state != AllocationState::Active {
        let detail = format!("only an active allocation can be restarted; it is {}", allocation.state);
        return Err(Problem::new(Code::InvalidState, detail));
    }
    without_cells(cx, &allocation, "to make its place anew would end what runs in them").await?;
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    let told = json!({"name": allocation.name, "reason": body.reason.clone().unwrap_or_default()});
    act(
        cx,
        Act {
            allocation,
            definition: &RESTART,
            input: json!({}),
            deadline_at,
            told,
            dry_run: body.dry_run.unwrap_or(false),
            supersedes: false,
        },
    )
    .await
}
