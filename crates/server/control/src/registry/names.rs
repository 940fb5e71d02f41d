//! Projects and repositories by name, cached for two seconds: a push resolves them a dozen times, and every command inside a
//! project needs the project's tenant.
//!
//! Only locations are cached, never permissions: visibility is decided on every request. Missing ones are not cached, so that a
//! new one is found at once; if one is deleted meanwhile, foreign keys reject rows that would be added to it.

use std::hash::Hash;
use std::time::Duration;

use moka::sync::Cache;
use muster_db::{Result, Store};
use muster_ids::{ProjectId, RepositoryId, TenantId};

const LIFETIME: Duration = Duration::from_secs(2);
const MOST: u64 = 10_000;

pub(crate) struct Names {
    tenants: Cache<ProjectId, TenantId>,
    projects: Cache<String, (ProjectId, TenantId)>,
    repositories: Cache<(ProjectId, String), RepositoryId>,
}

fn cache<K: Hash + Eq + Send + Sync + 'static, V: Clone + Send + Sync + 'static>() -> Cache<K, V> {
    Cache::builder().max_capacity(MOST).time_to_live(LIFETIME).build()
}

impl Default for Names {
    fn default() -> Self {
        Self { tenants: cache(), projects: cache(), repositories: cache() }
    }
}

impl Names {
    /// Returns the tenant of a project that was resolved lately.
    pub(crate) fn tenant(&self, project: ProjectId) -> Option<TenantId> {
        self.tenants.get(&project)
    }

    pub(crate) fn remember_tenant(&self, project: ProjectId, tenant: TenantId) {
        self.tenants.insert(project, tenant);
    }

    /// Returns a project by id or by `tenant.name`. A bare name is not accepted: its meaning would depend on the caller.
    pub(crate) async fn project(
        &self,
        store: &Store,
        reference: &str,
    ) -> Result<Option<(ProjectId, TenantId)>> {
        if let Some(found) = self.projects.get(reference) {
            return Ok(Some(found));
        }
        let found = match (reference.parse::<ProjectId>(), reference.split_once('.')) {
            (Ok(id), _) => store.project_lookup(id).await?,
            (Err(_), Some((slug, name))) => store.project_by_qualified_name(slug, name).await?,
            (Err(_), None) => None,
        };
        let Some(project) = found else { return Ok(None) };
        let place = (project.id, project.tenant_id);
        self.projects.insert(reference.to_owned(), place);
        Ok(Some(place))
    }

    /// Returns a repository of a project.
    pub(crate) async fn repository(
        &self,
        store: &Store,
        project: ProjectId,
        name: &str,
    ) -> Result<Option<RepositoryId>> {
        let key = (project, name.to_owned());
        if let Some(found) = self.repositories.get(&key) {
            return Ok(Some(found));
        }
        let found = store.repository_by_name(project, name).await?.map(|repository| repository.id);
        if let Some(id) = found {
            self.repositories.insert(key, id);
        }
        Ok(found)
    }

    pub(crate) fn remember(&self, project: ProjectId, name: &str, id: RepositoryId) {
        self.repositories.insert((project, name.to_owned()), id);
    }

    pub(crate) fn forget(&self) {
        self.tenants.invalidate_all();
        self.projects.invalidate_all();
        self.repositories.invalidate_all();
    }
}
