//! List a project's artifacts.

use muster_api::artifact::{ArtifactListQuery, ArtifactPage};
use muster_authz::Permission;
use muster_db::ArtifactFilter;
use muster_ids::TypedId as _;

use super::{policy_of, view};
use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `artifact_list`.
pub async fn list(cx: &Cx, project: &str, query: ArtifactListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactList, scope, "project")?;
    let store = &cx.platform.store;
    let labels = selector(query.labels.as_deref())?;
    let mut filter = ArtifactFilter { state: query.state, repository: None, digest: query.digest.clone() };
    let mut none = false;
    if let Some(name) = &query.repository {
        let repository = store.repository_by_name(project, name).await?;
        none = repository.is_none();
        filter.repository = repository.map(|repository| repository.id);
    }
    let list = format!(
        "artifacts {project} {:?} {:?} {:?} {:?}",
        query.labels, query.state, query.repository, query.digest
    );
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = match none {
        true => Vec::new(),
        false => store.artifact_list(page, &labels, project, &filter).await?,
    };
    let next_page_token = cx.next_page(&list, page, &mut items, |artifact| artifact.id.uuid()).await?;
    let policy = policy_of(cx, project).await?;
    let items = items.iter().map(|artifact| view(artifact, &policy)).collect();
    Ok(Answer::new(&ArtifactPage { items, next_page_token }))
}
