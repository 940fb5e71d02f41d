//! Change the size of an allocation, on the same node.

use muster_api::allocation::AllocationResize;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_model::allocation::{AllocationShape, AllocationState};
use muster_model::node::Capacity;
use muster_operations::allocation::RESIZE;
use serde_json::json;

use super::act::{Act, act, without_cells};
use crate::{Commit, Cx, Result};

/// Prepares `allocation_resize`.
pub async fn resize(cx: &Cx, project: &str, reference: &str, body: AllocationResize) -> Result<Commit> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationResize, allocation.scope(), "allocation")?;
    if allocation.state != AllocationState::Active {
        let detail = format!("only an active allocation can be resized; it is {}", allocation.state);
        return Err(Problem::new(Code::InvalidState, detail));
    }
    if allocation.shape == AllocationShape::Baremetal {
        let detail = "a baremetal allocation has all of its node: ask for another one instead";
        return Err(Problem::new(Code::InvalidState, detail));
    }
    let before = allocation.capacity;
    let target = Capacity {
        gpus: body.gpus.unwrap_or(before.gpus),
        cpus: body.cpus.unwrap_or(before.cpus),
        memory_mb: body.memory_mb.unwrap_or(before.memory_mb),
        disk_mb: body.disk_mb.unwrap_or(before.disk_mb),
    };
    if target.disk_mb < before.disk_mb {
        let why = "a disk is never made smaller: ask for another allocation, or leave it as it is";
        return Err(Problem::field("/disk_mb", why));
    }
    if target == before {
        return Err(Problem::field(
            "/gpus",
            "it has this size already: name at least one amount that differs",
        ));
    }
    // A cell has the GPUs that it was made with for as long as it lives; the rest grows and shrinks around it.
    if target.gpus != before.gpus {
        without_cells(cx, &allocation, "they have the GPUs that they were made with").await?;
    }
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    let told = json!({"name": allocation.name, "from": before, "to": target});
    act(
        cx,
        Act {
            allocation,
            definition: &RESIZE,
            input: json!({"capacity": target}),
            deadline_at,
            told,
            dry_run: body.dry_run.unwrap_or(false),
            supersedes: false,
        },
    )
    .await
}
