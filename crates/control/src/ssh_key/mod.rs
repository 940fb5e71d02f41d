//! SSH keys of people, for the cells of a project that ask for them.

mod create;
mod delete;
mod list;
mod public_key;

pub use create::create;
pub use delete::delete;
pub use list::list;

use muster_api::ssh_key as api;
use muster_model::cell::SshKey;

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
        created_at: key.created_at,
        version: key.version,
    }
}
