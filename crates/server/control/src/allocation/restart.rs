//! Re-create an allocation's sandbox, on the same node.

use muster_api::Code;
use muster_api::allocation::AllocationRestart;
use muster_authz::Permission;
use muster_engine::allocation::RESTART;
use muster_model::allocation::AllocationState;
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::act::{Act, act, ensure_restartable, interrupted};
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `allocation_restart`. Processes in its cells are stopped with the sandbox and started again in the new one.
pub async fn restart(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: AllocationRestart,
) -> Result<PreparedCommand> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationRestart, allocation.scope(), "allocation")?;
    cx.ensure_operated(&allocation).await?;
    if allocation.state != AllocationState::Active {
        let detail = format!("only an active allocation can be restarted; it is {}", allocation.state);
        return Err(Error::new(Code::InvalidState, detail));
    }
    let force = body.force.unwrap_or(false);
    ensure_restartable(cx, &allocation, force).await?;
    let found = interrupted(cx, &allocation).await?;
    let deadline_at = cx.now + cx.platform.engine.timing().create + found.within;
    let reason = body.reason.unwrap_or_default();
    let event_data = json!({"name": allocation.name, "reason": reason, "cells": found.names, "force": force});
    act(
        cx,
        Act {
            allocation,
            definition: &RESTART,
            input: OperationInput { force, ..OperationInput::because(&reason) },
            deadline_at,
            event_data,
            dry_run: body.dry_run.unwrap_or(false),
            supersedes: false,
            touched: found.touched,
        },
    )
    .await
}
