//! Destroy a cell.

use muster_api::Code;
use muster_api::cell::CellAct;
use muster_authz::Permission;
use muster_engine::cell::DESTROY;

use super::act;
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `cell_destroy`. It supersedes every open operation on the cell: destroying must always be possible.
pub async fn destroy(cx: &Cx, project: &str, reference: &str, body: CellAct) -> Result<PreparedCommand> {
    let cell = cx.cell(project, reference).await?;
    cx.authorize(Permission::CellDestroy, cell.scope(), "cell")?;
    if cell.state.is_final() {
        let detail = format!("it is {}: nothing is left to destroy", cell.state);
        return Err(Error::new(Code::InvalidState, detail));
    }
    let deadline_at = cx.now + cx.platform.engine.timing().release;
    act(cx, cell, &DESTROY, body, deadline_at, true).await
}
