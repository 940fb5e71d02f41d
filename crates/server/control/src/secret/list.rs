//! List a project's secrets, without their contents.

use muster_api::secret::{SecretListQuery, SecretPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Handles `secret_list`.
pub async fn list(cx: &Cx, project: &str, query: SecretListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SecretList, scope, "project")?;
    let list = format!("secrets {project}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.secret_list(page, project).await.map_err(refuse)?;
    let next_page_token = cx.next_page(&list, page, &mut items, |secret| secret.id.uuid()).await?;
    Ok(Answer::new(&SecretPage { items: items.iter().map(view).collect(), next_page_token }))
}
