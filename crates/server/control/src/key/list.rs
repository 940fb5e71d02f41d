//! List a project's trusted and revoked keys.

use muster_api::key::{KeyListQuery, KeyPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Handles `key_list`.
pub async fn list(cx: &Cx, project: &str, query: KeyListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::KeyList, scope, "project")?;
    let list = format!("keys {project}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.key_list(page, project).await.map_err(refuse)?;
    let next_page_token = cx.next_page(&list, page, &mut items, |key| key.id.uuid()).await?;
    Ok(Answer::new(&KeyPage { items: items.iter().map(view).collect(), next_page_token }))
}
