//! Give an allocation back.

use muster_api::allocation::AllocationAct;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_operations::allocation::RELEASE;
use serde_json::json;

use super::act::{Act, act};
use crate::{Commit, Cx, Result};

/// Prepares `allocation_release`. Whatever else is under way on it is superseded: a release must always be possible.
pub async fn release(cx: &Cx, project: &str, reference: &str, body: AllocationAct) -> Result<Commit> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationRelease, allocation.scope(), "allocation")?;
    if allocation.state.is_final() {
        let detail = format!("it is {}: there is nothing left to release", allocation.state);
        return Err(Problem::new(Code::InvalidState, detail));
    }
    if allocation.protected {
        let detail =
            "it is protected: take the protection away first (`muster allocation update --protected false`)";
        return Err(Problem::new(Code::InvalidState, detail));
    }
    let deadline_at = cx.now + cx.platform.engine.timing().release;
    let told = json!({"name": allocation.name, "reason": body.reason.clone().unwrap_or_default()});
    act(
        cx,
        Act {
            allocation,
            definition: &RELEASE,
            input: json!({"reason": body.reason.unwrap_or_default()}),
            deadline_at,
            told,
            dry_run: body.dry_run.unwrap_or(false),
            supersedes: true,
        },
    )
    .await
}
