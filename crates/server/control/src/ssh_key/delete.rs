//! Delete an SSH key from a project and its cells.

use std::collections::BTreeMap;

use muster_authz::{Permission, PrincipalKind};
use muster_model::Record as _;
use muster_model::cell::SshKey;
use muster_model::event::EventType;
use serde_json::json;

use crate::resource::find;
use crate::tenant::removed_view;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `ssh_key_delete`.
pub async fn delete(cx: &Cx, project: &str, reference: &str) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SshKeyDelete, scope, "SSH key")?;
    let key: SshKey = find(cx, project, reference).await?;
    // Only the user's own key, unless the actor may delete role bindings.
    if !matches!(cx.principal()?.kind, PrincipalKind::User { id, .. } if id == key.user_id) {
        cx.authorize(Permission::RoleBindingDelete, scope, "SSH key")?;
    }
    cx.expect_version(key.version)?;
    let (subject, named) = (key.path(), key.target());
    let told = json!({"name": key.name, "user_id": key.user_id, "fingerprint": key.fingerprint,
                      "allocation_id": key.allocation_id, "expires_at": key.expires_at});
    let before = key.clone();
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.delete_record(&key).await?;
            tx.bump_desired_people(key.tenant_id).await?;
            Ok(Answer::new(&removed_view(&key.id, BTreeMap::new())))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::SshKeyDeleted, subject, told))
}
