//! Revoke a trusted key.

use muster_api::Code;
use muster_api::key::KeyRevoke;
use muster_authz::Permission;
use muster_model::Record as _;
use muster_model::artifact::PublisherKey;
use muster_model::event::EventType;
use serde_json::json;

use crate::resource::find;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `key_revoke`.
pub async fn revoke(cx: &Cx, project: &str, reference: &str, body: KeyRevoke) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::KeyRevoke, scope, "key")?;
    let mut key: PublisherKey = find(cx, project, reference).await?;
    if key.revoked_at.is_some() {
        return Err(Error::new(Code::InvalidState, "the key was revoked before"));
    }
    let (subject, named) = (key.path(), key.target());
    let told = json!({"name": key.name, "fingerprint": key.fingerprint, "reason": body.reason});
    let before = key.clone();
    key.revoked_at = Some(cx.now);
    key.revoked_reason = Some(body.reason);
    key.version += 1;
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.trust_policy_raise(project).await?;
            tx.update_record(&key).await?;
            Ok(Answer::new(&key))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::KeyRevoked, subject, told))
}
