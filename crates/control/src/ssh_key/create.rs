//! Add one's own SSH key to a project.

use muster_api::ssh_key::SshKeyCreate;
use muster_api::{Code, Problem};
use muster_authz::{Permission, PrincipalKind};
use muster_model::cell::SshKey;
use muster_model::event::EventType;
use serde_json::json;

use super::public_key::parse;
use super::{path, view};
use crate::commit::target;
use crate::{Answer, Commit, Cx, Result};

/// Prepares `ssh_key_create`.
pub async fn create(cx: &Cx, project: &str, body: SshKeyCreate) -> Result<Commit> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SshKeyCreate, scope, "project")?;
    let PrincipalKind::User { id: user_id, .. } = cx.principal()?.kind else {
        return Err(Problem::new(Code::PermissionDenied, "a key is a person's: a service account has none"));
    };
    let parsed = parse(&body.public_key).map_err(|why| Problem::field("/public_key", why))?;
    let tenant_id = scope.tenant().ok_or_else(|| Problem::not_found("project"))?;
    let key = SshKey {
        id: cx.platform.world.id(),
        tenant_id,
        project_id,
        user_id,
        name: body.name,
        public_key: parsed.line,
        fingerprint: parsed.fingerprint,
        created_at: cx.now,
        version: 1,
    };
    let (subject, named) = (path(&key), target("ssh_key", key.id, &key.name));
    let told = json!({"name": key.name, "user_id": user_id, "fingerprint": key.fingerprint});
    let commit = Commit::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.ssh_key_insert(&key).await?;
            tx.wanted_raise_people(tenant_id).await?;
            Ok(Answer::new(&view(&key)))
        })
    });
    Ok(commit.event(cx, EventType::SshKeyCreated, subject, told))
}
