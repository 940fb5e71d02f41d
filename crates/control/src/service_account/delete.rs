//! Remove a service account and its tokens.

use std::collections::BTreeMap;

use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::tenant::removed_view;
use crate::{Answer, Commit, Cx, Result};

/// Prepares `service_account_delete`.
pub async fn delete(cx: &Cx, project: &str, reference: &str) -> Result<Commit> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ServiceAccountDelete, scope, "project")?;
    let account = cx.service_account(project, reference).await?;
    cx.expect_version(account.version)?;
    let (subject, told) = (path(&account), json!({"name": account.name}));
    let (id, version) = (account.id, account.version);
    let commit = Commit::new(account.scope(), target("service_account", id, &account.name), move |tx| {
        Box::pin(async move {
            let mut removed = BTreeMap::new();
            removed.insert("tokens", tx.token_delete_of_service_account(id).await?);
            tx.service_account_delete(id, version).await?;
            Ok(Answer::new(&removed_view(&id, removed)))
        })
    });
    Ok(commit.revokes().event(cx, EventType::ServiceAccountDeleted, subject, told))
}
