//! Request a terminal, a command or a file transfer.

use muster_api::stream::StreamCreate;
use muster_authz::Permission;
use muster_wire::stream::StreamWhat;

use super::grant::grant;
use crate::{Cx, PreparedCommand, Result};

/// Prepares `stream_create`.
pub async fn create(cx: &Cx, project: &str, cell: &str, body: StreamCreate) -> Result<PreparedCommand> {
    let what = match body {
        StreamCreate::Command(command) => StreamWhat::Command(command),
        StreamCreate::Read(file) => StreamWhat::Read(file),
        StreamCreate::Write(file) => StreamWhat::Write(file),
    };
    grant(cx, project, cell, Permission::StreamCreate, what).await
}
