//! Delete a service account and its tokens.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_authz::Permission;
use muster_db::StoreError;
use muster_model::event::EventType;
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::entitlement::not_by_hand;
use crate::tenant::{counted, removed_view};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `service_account_delete`.
pub async fn delete(cx: &Cx, project: &str, reference: &str) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ServiceAccountDelete, scope, "project")?;
    let account = cx.service_account(project, reference).await?;
    cx.expect_version(account.version)?;
    not_by_hand(cx, account.id).await?;
    let (subject, told) = (path(&account), json!({"name": account.name}));
    let (id, version) = (account.id, account.version);
    let before = account.clone();
    let commit =
        PreparedCommand::new(account.scope(), target("service_account", id, &account.name), move |tx| {
            Box::pin(async move {
                let mut removed = BTreeMap::new();
                removed.insert("tokens", tx.token_delete_of_service_account(id).await?);
                // An operator's account is deleted together with its revoked entitlement.
                removed.insert("entitlements", i64::from(tx.entitlement_delete_of_account(id).await?));
                removed.insert("adapters", counted(tx.adapter_delete_of_account(id).await?));
                tx.service_account_delete(id, version).await.map_err(|error| match error {
                    StoreError::Gone(_) => on_record(),
                    error => error.into(),
                })?;
                Ok(Answer::new(&removed_view(&id, removed)))
            })
        });
    Ok(commit.before(&before).revokes().event(cx, EventType::ServiceAccountDeleted, subject, told))
}

fn on_record() -> Error {
    Error::new(
        Code::InvalidState,
        "instances that it operated are on record and are deleted with the project: disable the account instead",
    )
}
