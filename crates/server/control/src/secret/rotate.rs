//! Rotate a secret: replace its content.

use muster_api::secret::SecretRotate;
use muster_authz::Permission;
use muster_model::Record as _;
use muster_model::event::EventType;
use muster_model::secret::ProjectSecret;
use serde_json::json;

use super::content::content;
use crate::resource::find;
use crate::tenant::counted;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `secret_rotate`.
pub async fn rotate(cx: &Cx, project: &str, reference: &str, body: SecretRotate) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SecretRotate, scope, "secret")?;
    let mut secret: ProjectSecret = find(cx, project, reference).await?;
    let before = secret.clone();
    let content = content(body.value, body.encoding)?;
    let platform = &cx.platform;
    secret.revision += 1;
    let context = ProjectSecret::context(secret.id, secret.revision);
    secret.sealed = platform.envelope.seal(&platform.store, &scope.chain(), &context, &content).await?;
    secret.size = counted(content.len() as u64);
    secret.updated_at = cx.now;
    secret.version += 1;
    let (subject, named) = (secret.path(), secret.target());
    let told = json!({"name": secret.name, "revision": secret.revision});
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.update_record(&secret).await?;
            Ok(Answer::new(&secret))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::SecretRotated, subject, told))
}
