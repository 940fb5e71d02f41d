//! Make a cell anew in its place.

use muster_api::cell::CellAct;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_model::cell::CellState;
use muster_operations::cell::RESTART;

use super::act;
use crate::{Commit, Cx, Result};

/// Prepares `cell_restart`.
pub async fn restart(cx: &Cx, project: &str, reference: &str, body: CellAct) -> Result<Commit> {
    let cell = cx.cell(project, reference).await?;
    cx.authorize(Permission::CellRestart, cell.scope(), "cell")?;
    if cell.state != CellState::Running {
        let detail = format!("only a running cell can be restarted; it is {}", cell.state);
        return Err(Problem::new(Code::InvalidState, detail));
    }
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    act(cx, cell, &RESTART, body, deadline_at, false).await
}
