//! Change the size of an allocation, on the same node.

use muster_api::Code;
use muster_api::allocation::AllocationResize;
use muster_authz::Permission;
use muster_engine::allocation::RESIZE;
use muster_model::allocation::{AllocationShape, AllocationState};
use muster_model::node::Capacity;
use muster_model::operation_input::{OperationInput, RequestedCapacity};
use serde_json::json;

use super::act::{Act, act, ensure_restartable, interrupted, named};
use crate::capacity::ensure_possible;
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `allocation_resize`.
pub async fn resize(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: AllocationResize,
) -> Result<PreparedCommand> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationResize, allocation.scope(), "allocation")?;
    cx.ensure_operated(&allocation).await?;
    if allocation.state != AllocationState::Active {
        let detail = format!("only an active allocation can be resized; it is {}", allocation.state);
        return Err(Error::new(Code::InvalidState, detail));
    }
    if allocation.shape == AllocationShape::Baremetal {
        let detail = "a baremetal allocation has all of its node: create another one instead";
        return Err(Error::new(Code::InvalidState, detail));
    }
    let before = allocation.capacity;
    let target = Capacity {
        gpus: body.gpus.unwrap_or(before.gpus),
        cpus: body.cpus.unwrap_or(before.cpus),
        memory_mb: body.memory_mb.unwrap_or(before.memory_mb),
        disk_mb: body.disk_mb.unwrap_or(before.disk_mb),
    };
    if target.disk_mb < before.disk_mb {
        let why = "a disk cannot shrink: create another allocation, or keep the size";
        return Err(Error::field("/disk_mb", why));
    }
    if target == before {
        return Err(Error::field("/gpus", "it has this size already: name at least one amount that differs"));
    }
    ensure_possible(cx, &target, |resource, why| Error::field(format!("/{}", resource.field()), why)).await?;
    // A cell keeps its GPUs for its lifetime; its other resources are resized in place.
    let found = interrupted(cx, &allocation).await?;
    let restart = target.gpus != before.gpus && !found.names.is_empty();
    let force = body.force.unwrap_or(false);
    if force && body.restart != Some(true) {
        return Err(Error::field("/force", "it applies to restarted cells: use it with `restart`"));
    }
    if restart && body.restart != Some(true) {
        let detail = format!(
            "it holds cells ({}), and a cell keeps its GPUs while it runs: add `--restart` to restart them \
             with the others, or destroy them first",
            named(&found.names)
        );
        return Err(Error::new(Code::InvalidState, detail));
    }
    if let Some((cell, last)) = found.last_gpu.as_ref().filter(|(_, last)| restart && *last >= target.gpus) {
        let why = format!("the cell {cell} uses GPU {last}: destroy it first, or keep more than {last} GPUs");
        return Err(Error::field("/gpus", why));
    }
    if restart {
        ensure_restartable(cx, &allocation, force).await?;
    }
    let (within, touched) = match restart {
        true => (found.within, found.touched),
        false => (jiff::SignedDuration::ZERO, Vec::new()),
    };
    let deadline_at = cx.now + cx.platform.engine.timing().create + within;
    let event_data = json!({"name": allocation.name, "from": before, "to": target, "restart": restart});
    act(
        cx,
        Act {
            allocation,
            definition: &RESIZE,
            input: OperationInput {
                capacity: Some(RequestedCapacity::Each(target)),
                restart,
                ..OperationInput::forced(force)
            },
            deadline_at,
            event_data,
            dry_run: body.dry_run.unwrap_or(false),
            supersedes: false,
            touched,
        },
    )
    .await
}
