//! Repositories in the API. Their content is managed through the registry protocol.

mod delete;
mod get;
mod list;
mod tags;
use muster_api::repository as api;
use muster_ids::{ProjectId, RepositoryId};
use muster_model::artifact::Repository;

use crate::{Cx, Error, Result};

pub use delete::delete;
pub use get::get;
pub use list::list;
pub use tags::tags;

/// Returns a repository of a project, by id or name.
pub(crate) async fn found(cx: &Cx, project: ProjectId, reference: &str) -> Result<Repository> {
    let store = &cx.platform.store;
    let found = match reference.parse::<RepositoryId>() {
        Ok(id) => store.repository_lookup(id).await,
        Err(_) => store.repository_by_name(project, reference).await,
    };
    found?.filter(|repository| repository.project_id == project).ok_or_else(|| Error::not_found("repository"))
}

async fn view(cx: &Cx, repository: &Repository) -> Result<api::Repository> {
    let store = &cx.platform.store;
    let (manifests, size) = store.repository_content(repository.id).await?;
    let project = store.project_lookup(repository.project_id).await?;
    let project = project.ok_or_else(|| Error::not_found("project"))?;
    Ok(api::Repository {
        id: repository.id,
        tenant_id: repository.tenant_id,
        project_id: repository.project_id,
        name: repository.name.clone(),
        path: format!("{}.{}/{}", project.tenant_slug, project.name, repository.name),
        manifests,
        size,
        created_at: repository.created_at,
        version: repository.version,
    })
}
