//! Where projects are, remembered for two seconds: every command inside a project asks, and the answer hardly ever changes.
//!
//! Only the place is remembered (which tenant a project id belongs to), never a right: whether the actor may see it is decided
//! anew with every request. A project that is removed meanwhile is held by the foreign keys of what would be put into it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use muster_ids::{ProjectId, TenantId};

const LIFETIME: Duration = Duration::from_secs(2);
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct Places(Mutex<HashMap<ProjectId, (Instant, TenantId)>>);

impl Places {
    pub(crate) fn find(&self, project: ProjectId) -> Option<TenantId> {
        let places = self.0.lock().expect("no holder of this lock can panic");
        places.get(&project).filter(|(at, _)| at.elapsed() < LIFETIME).map(|(_, tenant)| *tenant)
    }

    pub(crate) fn remember(&self, project: ProjectId, tenant: TenantId) {
        let mut places = self.0.lock().expect("no holder of this lock can panic");
        if places.len() >= MOST {
            places.clear();
        }
        places.insert(project, (Instant::now(), tenant));
    }

    pub(crate) fn forget(&self) {
        self.0.lock().expect("no holder of this lock can panic").clear();
    }
}
