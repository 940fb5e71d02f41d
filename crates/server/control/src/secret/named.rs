//! Resolution of secret references in cells: a project secret by name or id, or a runtime secret by id.

use jiff::Timestamp;
use muster_db::Store;
use muster_ids::{ProjectId, RuntimeSecretId, SecretId};
use muster_model::secret::{ProjectSecret, Purpose, RuntimeSecret};

/// A secret that a cell can receive.
pub(crate) enum Named {
    /// A project secret.
    Project(ProjectSecret),
    /// A shared runtime secret of members.
    Runtime(RuntimeSecret),
}

/// Returns the secret if it is the project's and still valid. Pull credentials cannot be referenced: only nodes receive
/// them.
pub(crate) async fn named(
    store: &Store,
    project: ProjectId,
    reference: &str,
    now: Timestamp,
) -> muster_db::Result<Option<Named>> {
    if let Ok(id) = reference.parse::<RuntimeSecretId>() {
        let found = store.runtime_secret_lookup(id).await?;
        let holds = |secret: &RuntimeSecret| {
            secret.project_id == project
                && secret.purpose == Purpose::ClusterBootstrap
                && secret.revoked_at.is_none()
                && secret.expires_at.is_none_or(|end| end > now)
        };
        return Ok(found.filter(holds).map(Named::Runtime));
    }
    let found = match reference.parse::<SecretId>() {
        Ok(id) => store.find::<ProjectSecret>(id).await?,
        Err(_) => store.find_by_name(project, reference).await?,
    };
    Ok(found.filter(|secret| secret.project_id == project).map(Named::Project))
}
