//! List a project's repositories.

use muster_api::repository::{RepositoryListQuery, RepositoryPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `repository_list`.
pub async fn list(cx: &Cx, project: &str, query: RepositoryListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RepositoryList, scope, "project")?;
    let list = format!("repositories {project}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut found = cx.platform.store.repository_list(page, project).await?;
    let next_page_token = cx.next_page(&list, page, &mut found, |repository| repository.id.uuid()).await?;
    let mut items = Vec::with_capacity(found.len());
    for repository in &found {
        items.push(view(cx, repository).await?);
    }
    Ok(Answer::new(&RepositoryPage { items, next_page_token }))
}
