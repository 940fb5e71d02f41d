//! Runtime secrets: material that the platform issues for a purpose, to service accounts and to nodes.

mod get;
mod issue;
mod list;
mod revoke;

pub use get::get;
pub use issue::issue;
pub(crate) use issue::{Pull, pull};
pub use list::list;
use muster_api::secret as api;
use muster_ids::{ProjectId, RuntimeSecretId};
use muster_model::secret::RuntimeSecret;
pub use revoke::revoke;
use serde_json::{Value, json};

use crate::commit::told;
use crate::{Cx, Error, Result};

/// Returns a runtime secret of a project by id: names are only for lists.
async fn found(cx: &Cx, project: ProjectId, reference: &str) -> Result<RuntimeSecret> {
    let absent = || Error::not_found("runtime secret");
    let id: RuntimeSecretId = reference.parse().map_err(|_| absent())?;
    let secret = cx.platform.store.runtime_secret_lookup(id).await?;
    let secret = secret.filter(|secret| secret.project_id == project).ok_or_else(absent)?;
    // An app's adapter can access only the secrets of its own instances.
    if cx.operates().is_some() {
        let instance = match secret.instance_id {
            Some(id) => cx.platform.store.instance_lookup(id).await?,
            None => None,
        };
        if instance.is_none_or(|instance| !cx.reaches(instance.operator_account_id)) {
            return Err(absent());
        }
    }
    Ok(secret)
}

pub(crate) fn path(secret: &RuntimeSecret) -> String {
    format!("/v1/projects/{}/runtime-secrets/{}", secret.project_id, secret.id)
}

/// Returns the data for events and audit entries.
pub(crate) fn facts(secret: &RuntimeSecret, reason: Option<&str>) -> Value {
    told(&[
        ("name", Some(json!(secret.name))),
        ("purpose", Some(json!(secret.purpose.as_str()))),
        ("repository_id", secret.repository_id.map(|id| json!(id))),
        ("cell_id", secret.cell_id.map(|id| json!(id))),
        ("incarnation", secret.incarnation.map(|incarnation| json!(incarnation))),
        ("expires_at", secret.expires_at.map(|at| json!(at))),
        ("reason", reason.map(|reason| json!(reason))),
    ])
}

fn view(secret: &RuntimeSecret) -> api::RuntimeSecret {
    api::RuntimeSecret {
        id: secret.id,
        tenant_id: secret.tenant_id,
        project_id: secret.project_id,
        purpose: secret.purpose,
        name: secret.name.clone(),
        repository_id: secret.repository_id,
        cell_id: secret.cell_id,
        incarnation: secret.incarnation,
        instance_id: secret.instance_id,
        expires_at: secret.expires_at,
        revoked_at: secret.revoked_at,
        created_at: secret.created_at,
        version: secret.version,
        value: None,
        secret_shown_once: None,
    }
}
