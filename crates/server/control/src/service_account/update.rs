//! Change a service account's allow list or description, or disable it.

use muster_api::service_account::ServiceAccountUpdate;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{allow_list, path};
use crate::commit::{changed, target};
use crate::entitlement::not_by_hand;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `service_account_update`.
pub async fn update(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: ServiceAccountUpdate,
) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ServiceAccountUpdate, scope, "project")?;
    let mut account = cx.service_account(project, reference).await?;
    cx.expect_version(account.version)?;
    not_by_hand(cx, account.id).await?;
    let told = changed(
        &account,
        &[
            ("description", body.description.as_ref().map(|text| json!(text))),
            ("permissions", body.permissions.as_ref().map(|words| json!(words))),
            ("disabled", body.disabled.map(|disabled| json!(disabled))),
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
        ],
    );
    if let Some(text) = body.description {
        account.description = text;
    }
    if let Some(words) = body.permissions {
        account.permissions = allow_list(cx, scope, "/permissions", words)?;
    }
    if let Some(disabled) = body.disabled {
        account.disabled = disabled;
    }
    if body.labels.is_some() {
        account.labels = checked_labels(body.labels)?;
    }
    account.updated_at = cx.now;
    account.version += 1;
    let subject = path(&account);
    let commit = PreparedCommand::new(
        account.scope(),
        target("service_account", account.id, &account.name),
        move |tx| {
            Box::pin(async move {
                tx.service_account_update(&account).await?;
                Ok(Answer::new(&account))
            })
        },
    );
    Ok(commit.revokes().event(cx, EventType::ServiceAccountUpdated, subject, told))
}
