//! Publisher keys: the keys with which signatures count in a project.
//!
//! A key is never deleted, only revoked: its signatures must stay distinguishable from those of unknown keys, and its name
//! must not be reused for another key.

mod create;
mod get;
mod list;
mod revoke;

pub use create::create;
pub use get::get;
pub use list::list;
pub use revoke::revoke;

use muster_api::{Problem, key as api};
use muster_ids::{KeyId, ProjectId};
use muster_model::artifact::PublisherKey;

use crate::Cx;
use crate::refuse::{Result, refuse};

/// Returns a key of a project, by id or name.
async fn found(cx: &Cx, project: ProjectId, reference: &str) -> Result<PublisherKey> {
    let store = &cx.platform.store;
    let found = match reference.parse::<KeyId>() {
        Ok(id) => store.key_lookup(id).await,
        Err(_) => store.key_by_name(project, reference).await,
    };
    found.map_err(refuse)?.filter(|key| key.project_id == project).ok_or_else(|| Problem::not_found("key"))
}

fn path(key: &PublisherKey) -> String {
    format!("/v1/projects/{}/keys/{}", key.project_id, key.id)
}

fn view(key: &PublisherKey) -> api::Key {
    api::Key {
        id: key.id,
        tenant_id: key.tenant_id,
        project_id: key.project_id,
        name: key.name.clone(),
        public_key: key.public_key.clone(),
        fingerprint: key.fingerprint.clone(),
        algorithm: key.algorithm.clone(),
        created_at: key.created_at,
        revoked_at: key.revoked_at,
        revoked_reason: key.revoked_reason.clone(),
        version: key.version,
    }
}
