//! Show the archived logs of a cell's services from before it was removed.

use muster_api::cell::{ArchivedLogs, CellLog};
use muster_authz::Permission;

use crate::{Answer, Cx, Result};

/// Handles `cell_archived_logs`.
pub async fn archived_logs(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let cell = cx.cell(project, reference).await?;
    cx.authorize(Permission::CellArchivedLogs, cell.scope(), "cell")?;
    cx.large_answer().await;
    let kept = cx.platform.store.cell_log_list(cell.id).await?;
    let logs = kept.into_iter().map(|log| CellLog {
        incarnation: log.incarnation,
        service: log.service,
        text: log.text,
        truncated: log.truncated,
        kept_at: log.kept_at,
    });
    Ok(Answer::new(&ArchivedLogs { logs: logs.collect() }))
}
