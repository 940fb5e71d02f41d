//! Show a publisher's key.

use muster_authz::Permission;

use super::{found, view};
use crate::{Answer, Cx, Result};

/// Handles `key_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::KeyGet, scope, "key")?;
    Ok(Answer::new(&view(&found(cx, project, reference).await?)))
}
