//! Users' SSH keys, for the cells of a project that accept them.

mod create;
mod delete;
mod expire;
mod get;
mod list;
mod public_key;

pub use create::create;
pub use delete::delete;
pub use get::get;
pub use list::list;

use muster_api::{Problem, ssh_key as api};
use muster_ids::{ProjectId, SshKeyId};
use muster_model::cell::SshKey;

use crate::Cx;
use crate::refuse::{Result, refuse};

/// Returns a key of a project, by id.
async fn found(cx: &Cx, project: ProjectId, reference: &str) -> Result<SshKey> {
    let absent = || Problem::not_found("SSH key");
    let id: SshKeyId = reference.parse().map_err(|_| absent())?;
    let key = cx.platform.store.ssh_key_lookup(id).await.map_err(refuse)?;
    key.filter(|key| key.project_id == project).ok_or_else(absent)
}

fn path(key: &SshKey) -> String {
    format!("/v1/projects/{}/ssh-keys/{}", key.project_id, key.id)
}

fn view(key: &SshKey) -> api::SshKey {
    api::SshKey {
        id: key.id,
        project_id: key.project_id,
        user_id: key.user_id,
        name: key.name.clone(),
        public_key: key.public_key.clone(),
        fingerprint: key.fingerprint.clone(),
        allocation_id: key.allocation_id,
        expires_at: key.expires_at,
        granted_by: key.granted_by,
        created_at: key.created_at,
        version: key.version,
    }
}
