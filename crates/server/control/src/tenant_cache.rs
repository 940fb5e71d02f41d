//! Tenants of projects, cached for two seconds: every command inside a project needs this, and it hardly ever changes.
//!
//! Only the location (the tenant of a project id) is cached, never a permission: visibility is decided on every request. If
//! a project is deleted meanwhile, foreign keys reject rows that would be added to it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use muster_ids::{ProjectId, TenantId};
use parking_lot::Mutex;

const LIFETIME: Duration = Duration::from_secs(2);
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct TenantCache(Mutex<HashMap<ProjectId, (Instant, TenantId)>>);

impl TenantCache {
    pub(crate) fn find(&self, project: ProjectId) -> Option<TenantId> {
        let places = self.0.lock();
        places.get(&project).filter(|(at, _)| at.elapsed() < LIFETIME).map(|(_, tenant)| *tenant)
    }

    pub(crate) fn remember(&self, project: ProjectId, tenant: TenantId) {
        let mut places = self.0.lock();
        if places.len() >= MOST {
            places.clear();
        }
        places.insert(project, (Instant::now(), tenant));
    }

    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }
}
