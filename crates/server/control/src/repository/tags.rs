//! List the tags of a repository.

use muster_api::repository::{RepositoryTagsQuery, Tag, TagPage};
use muster_authz::Permission;

use super::found;
use crate::{Answer, Cx, Result};

/// Handles `repository_tags`.
pub async fn tags(cx: &Cx, project: &str, reference: &str, query: RepositoryTagsQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RepositoryTags, scope, "repository")?;
    let repository = found(cx, project, reference).await?;
    let list = format!("tags {}", repository.id);
    let page = cx.page_by_name(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut tags = cx.platform.store.tag_list(repository.id, &page.after, page.size).await?;
    let next_page_token = cx.next_by_name(&list, &page, &mut tags, |tag| tag.name.as_str()).await?;
    let items = tags
        .into_iter()
        .map(|tag| Tag { name: tag.name, digest: tag.digest, updated_at: tag.updated_at })
        .collect();
    Ok(Answer::new(&TagPage { items, next_page_token }))
}
