//! A project's own secrets. Content is handled in zeroized memory, sealed and dropped; events, audit entries, responses and
//! logs never contain any of it, not even its hash.

mod content;
mod create;
mod delete;
mod get;
mod list;
mod named;
mod rotate;

pub use create::create;
pub use delete::delete;
pub use get::get;
pub use list::list;
pub(crate) use named::{Named, named};
pub use rotate::rotate;

use muster_api::{Problem, secret as api};
use muster_ids::{ProjectId, SecretId};
use muster_model::secret::ProjectSecret;

use crate::Cx;
use crate::refuse::{Result, refuse};

/// Returns a secret of a project, by id or name.
async fn found(cx: &Cx, project: ProjectId, reference: &str) -> Result<ProjectSecret> {
    let store = &cx.platform.store;
    let found = match reference.parse::<SecretId>() {
        Ok(id) => store.secret_lookup(id).await,
        Err(_) => store.secret_by_name(project, reference).await,
    };
    found
        .map_err(refuse)?
        .filter(|secret| secret.project_id == project)
        .ok_or_else(|| Problem::not_found("secret"))
}

pub(crate) fn path(secret: &ProjectSecret) -> String {
    format!("/v1/projects/{}/secrets/{}", secret.project_id, secret.id)
}

fn view(secret: &ProjectSecret) -> api::Secret {
    api::Secret {
        id: secret.id,
        tenant_id: secret.tenant_id,
        project_id: secret.project_id,
        name: secret.name.clone(),
        registry: secret.registry.clone(),
        revision: secret.revision,
        size: secret.size,
        created_at: secret.created_at,
        updated_at: secret.updated_at,
        version: secret.version,
    }
}
