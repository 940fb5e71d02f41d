//! Show the archived logs of a cell's services from before it was removed.

use muster_api::cell::ArchivedLogs;
use muster_authz::Permission;

use crate::{Answer, Cx, Result};

/// Handles `cell_archived_logs`.
pub async fn archived_logs(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let cell = cx.cell(project, reference).await?;
    cx.authorize(Permission::CellArchivedLogs, cell.scope(), "cell")?;
    cx.large_answer().await;
    let logs = cx.platform.store.cell_log_list(cell.id).await?;
    Ok(Answer::new(&ArchivedLogs { logs }))
}
