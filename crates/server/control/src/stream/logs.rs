//! Ask for what services wrote: a right of its own, because whoever may look may not therefore act.

use muster_authz::Permission;
use muster_wire::stream::{Logs, StreamWhat};

use super::grant::grant;
use crate::{Commit, Cx, Result};

/// Prepares `stream_logs`.
pub async fn logs(cx: &Cx, project: &str, cell: &str, body: Logs) -> Result<Commit> {
    grant(cx, project, cell, Permission::StreamLogs, StreamWhat::Logs(body)).await
}
