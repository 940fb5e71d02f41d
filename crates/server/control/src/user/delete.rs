//! Delete a user, with tokens, sessions and role bindings.

use std::collections::BTreeMap;

use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{keep_an_operator, path, view};
use crate::commit::target;
use crate::tenant::{counted, removed_view};
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `user_delete`.
pub async fn delete(cx: &Cx, reference: &str) -> Result<PreparedCommand> {
    let user = cx.user(reference).await?;
    cx.authorize(Permission::UserDelete, user.scope(), "person")?;
    cx.expect_version(user.version)?;
    let (subject, told) = (path(&user), json!({"email": user.email}));
    let (id, version, tenant) = (user.id, user.version, user.tenant_id);
    let before = view(&user);
    let commit = PreparedCommand::new(user.scope(), target("user", id, &user.email), move |tx| {
        Box::pin(async move {
            keep_an_operator(tx, id).await?;
            let mut removed = BTreeMap::new();
            removed.insert("tokens", tx.token_delete_of_user(id).await?);
            removed.insert("role_bindings", tx.role_binding_delete_of_user(id).await?);
            removed.insert("ssh_keys", counted(tx.ssh_key_delete_of_user(id).await?));
            if let Some(tenant) = tenant {
                tx.bump_desired_people(tenant).await?;
            }
            tx.user_delete(id, version).await?;
            Ok(Answer::new(&removed_view(&id, removed)))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::UserDeleted, subject, told))
}
