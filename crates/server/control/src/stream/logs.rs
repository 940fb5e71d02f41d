//! Request the logs of services. It has a permission of its own, because read access must not imply permission to act.

use muster_authz::Permission;
use muster_wire::stream::{Logs, StreamWhat};

use super::grant::grant;
use crate::{Cx, PreparedCommand, Result};

/// Prepares `stream_logs`.
pub async fn logs(cx: &Cx, project: &str, cell: &str, body: Logs) -> Result<PreparedCommand> {
    grant(cx, project, cell, Permission::StreamLogs, StreamWhat::Logs(body)).await
}
