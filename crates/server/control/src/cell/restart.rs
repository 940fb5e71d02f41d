//! Re-create a cell in place.

use muster_api::Code;
use muster_api::cell::CellAct;
use muster_authz::Permission;
use muster_engine::cell::RESTART;
use muster_model::cell::CellState;

use super::act;
use crate::artifact::ensure_trusted;
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `cell_restart`.
pub async fn restart(cx: &Cx, project: &str, reference: &str, body: CellAct) -> Result<PreparedCommand> {
    let cell = cx.cell(project, reference).await?;
    cx.authorize(Permission::CellRestart, cell.scope(), "cell")?;
    if cell.state != CellState::Running {
        let detail = format!("only a running cell can be restarted; it is {}", cell.state);
        return Err(Error::new(Code::InvalidState, detail));
    }
    // Verify before stopping anything: the node would refuse to re-create it, and the cell would be down.
    if let Some(id) = cell.artifact_id {
        let artifact = cx.platform.store.artifact_lookup(id).await?;
        let artifact = artifact.ok_or_else(|| Error::not_found("artifact"))?;
        ensure_trusted(cx, &artifact).await?;
    }
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    act(cx, cell, &RESTART, body, deadline_at, false).await
}
