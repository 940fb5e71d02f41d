//! Revoke a runtime secret. The sealed content is erased; cells keep their copies until they are re-created, or until the
//! instance's adapter supplies another: a reconcile is requested at once.

use muster_api::Code;
use muster_api::secret::RuntimeSecretRevoke;
use muster_authz::Permission;
use muster_model::event::EventType;

use super::{facts, found, path, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `runtime_secret_revoke`.
pub async fn revoke(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: RuntimeSecretRevoke,
) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RuntimeSecretRevoke, scope, "runtime secret")?;
    let mut secret = found(cx, project, reference).await?;
    if secret.revoked_at.is_some() {
        return Err(Error::new(Code::InvalidState, "it was revoked before, or its cell was destroyed"));
    }
    let (id, seen, at, instance) = (secret.id, secret.version, cx.now, secret.instance_id);
    let (subject, target) = (path(&secret), target("runtime_secret", id, &secret.name));
    let told = facts(&secret, body.reason.as_deref());
    let before = view(&secret);
    secret.revoked_at = Some(at);
    secret.version += 1;
    let commit = PreparedCommand::new(scope, target, move |tx| {
        Box::pin(async move {
            tx.runtime_secret_revoke(id, seen, at).await?;
            if let Some(instance) = instance {
                tx.instance_schedule_reconcile(instance, at).await?;
            }
            Ok(Answer::new(&view(&secret)))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::RuntimeSecretRevoked, subject, told))
}
