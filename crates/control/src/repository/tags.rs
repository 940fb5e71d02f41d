//! List the tags of a repository.

use muster_api::repository::{RepositoryTags, Tag};
use muster_authz::Permission;

use super::found;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// So many are shown; the registry's own list goes on from there.
const MOST: i64 = 1000;

/// Answers `repository_tags`.
pub async fn tags(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RepositoryTags, scope, "repository")?;
    let repository = found(cx, project, reference).await?;
    let tags = cx.platform.store.tag_list(repository.id, "", MOST).await.map_err(refuse)?;
    let tags = tags
        .into_iter()
        .map(|tag| Tag { name: tag.name, digest: tag.digest, updated_at: tag.updated_at })
        .collect();
    Ok(Answer::new(&RepositoryTags { tags }))
}
