//! Launch an instance of an app.

use muster_api::instance::InstanceCreate;
use muster_authz::Permission;

use super::launch::launch;
use crate::{Cx, PreparedCommand, Result};

/// Prepares `instance_create`.
pub async fn create(cx: &Cx, project: &str, body: InstanceCreate) -> Result<PreparedCommand> {
    let (_, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::InstanceCreate, scope, "project")?;
    launch(cx, project, body).await
}
