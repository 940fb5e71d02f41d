//! Revoke a trusted key.

use muster_api::key::KeyRevoke;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{found, path, view};
use crate::commit::target;
use crate::{Answer, Commit, Cx, Result};

/// Prepares `key_revoke`.
pub async fn revoke(cx: &Cx, project: &str, reference: &str, body: KeyRevoke) -> Result<Commit> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::KeyRevoke, scope, "key")?;
    let mut key = found(cx, project, reference).await?;
    if key.revoked_at.is_some() {
        return Err(Problem::new(Code::InvalidState, "the key was revoked before"));
    }
    let (id, seen, at) = (key.id, key.version, cx.now);
    let (subject, named) = (path(&key), target("key", id, &key.name));
    let told = json!({"name": key.name, "fingerprint": key.fingerprint, "reason": body.reason});
    let before = view(&key);
    key.revoked_at = Some(at);
    key.revoked_reason = Some(body.reason.clone());
    key.version += 1;
    let commit = Commit::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.trust_policy_raise(project).await?;
            tx.key_revoke(id, seen, &body.reason, at).await?;
            Ok(Answer::new(&view(&key)))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::KeyRevoked, subject, told))
}
