//! Projects and repositories by name, cached for two seconds: a push resolves them a dozen times.
//!
//! Only locations are cached, never permissions. Missing ones are not cached, so that a new one is found at once; if a
//! repository is deleted meanwhile, foreign keys reject rows that would be added to it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use muster_db::{Result, Store};
use muster_ids::{ProjectId, RepositoryId, TenantId};
use parking_lot::Mutex;

const LIFETIME: Duration = Duration::from_secs(2);
const MOST: usize = 10_000;

type Remembered<K, V> = Mutex<HashMap<K, (Instant, V)>>;

#[derive(Default)]
pub(crate) struct Names {
    projects: Remembered<String, (ProjectId, TenantId)>,
    repositories: Remembered<(ProjectId, String), RepositoryId>,
}

impl Names {
    /// Returns a project by id or by `tenant.name`. A bare name is not accepted: its meaning would depend on the caller.
    pub(crate) async fn project(
        &self,
        store: &Store,
        reference: &str,
    ) -> Result<Option<(ProjectId, TenantId)>> {
        if let Some(found) = recall(&self.projects, reference) {
            return Ok(Some(found));
        }
        let found = match (reference.parse::<ProjectId>(), reference.split_once('.')) {
            (Ok(id), _) => store.project_lookup(id).await?,
            (Err(_), Some((slug, name))) => store.project_by_qualified_name(slug, name).await?,
            (Err(_), None) => None,
        };
        let Some(project) = found else { return Ok(None) };
        let place = (project.id, project.tenant_id);
        keep(&self.projects, reference.to_owned(), place);
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
        if let Some(found) = recall(&self.repositories, &key) {
            return Ok(Some(found));
        }
        let found = store.repository_by_name(project, name).await?.map(|repository| repository.id);
        if let Some(id) = found {
            keep(&self.repositories, key, id);
        }
        Ok(found)
    }

    pub(crate) fn remember(&self, project: ProjectId, name: &str, id: RepositoryId) {
        keep(&self.repositories, (project, name.to_owned()), id);
    }

    pub(crate) fn forget(&self) {
        self.projects.lock().clear();
        self.repositories.lock().clear();
    }
}

fn recall<K, Q, V: Copy>(remembered: &Remembered<K, V>, key: &Q) -> Option<V>
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    let remembered = remembered.lock();
    remembered.get(key).filter(|(at, _)| at.elapsed() < LIFETIME).map(|(_, value)| *value)
}

fn keep<K: std::hash::Hash + Eq, V>(remembered: &Remembered<K, V>, key: K, value: V) {
    let mut remembered = remembered.lock();
    if remembered.len() >= MOST {
        remembered.clear();
    }
    remembered.insert(key, (Instant::now(), value));
}
