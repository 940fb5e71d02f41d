//! What a cell means by the name of a secret: one of its project's own, by name or id, or material that was issued there, by id.

use jiff::Timestamp;
use muster_db::Store;
use muster_ids::{ProjectId, RuntimeSecretId, SecretId};
use muster_model::secret::{ProjectSecret, Purpose, RuntimeSecret};

/// A secret that a cell can be given.
pub(crate) enum Named {
    /// The project's own.
    Project(ProjectSecret),
    /// What members share, issued by the platform.
    Runtime(RuntimeSecret),
}

/// Finds it, if it is the project's and still holds. Credentials are nobody's to name: they are given to nodes alone.
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
        Ok(id) => store.secret_lookup(id).await?,
        Err(_) => store.secret_by_name(project, reference).await?,
    };
    Ok(found.filter(|secret| secret.project_id == project).map(Named::Project))
}
