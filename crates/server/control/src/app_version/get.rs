//! Show a release with its manifest.

use muster_authz::Permission;

use super::{found, view};
use crate::app::found as found_app;
use crate::{Answer, Cx, Result};

/// Handles `app_version_get`.
pub async fn get(cx: &Cx, project: &str, app: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppVersionGet, scope, "app")?;
    let app = found_app(cx, scope, app).await?.app;
    let version = found(cx, project, &app, reference).await?;
    Ok(Answer::new(&view(&app, &version)))
}
