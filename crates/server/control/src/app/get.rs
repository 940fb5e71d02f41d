//! Show an app.

use muster_authz::Permission;

use super::{found, view};
use crate::{Answer, Cx, Result};

/// Handles `app_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (_, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppGet, scope, "app")?;
    Ok(Answer::new(&view(&found(cx, scope, reference).await?)))
}
