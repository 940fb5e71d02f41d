//! Delete a webhook.

use std::collections::BTreeMap;

use muster_authz::Permission;
use muster_model::event::EventType;
use muster_model::webhook::WebhookState;
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::tenant::removed_view;
use crate::{Answer, Cx, PreparedCommand, Result, outbound};

/// Prepares `webhook_delete`.
pub async fn delete(cx: &Cx, reference: &str) -> Result<PreparedCommand> {
    let webhook = cx.webhook(reference).await?;
    cx.authorize(Permission::WebhookDelete, webhook.scope, "webhook")?;
    cx.expect_version(webhook.version)?;
    let (subject, told) = (path(&webhook), json!({"name": webhook.name}));
    let (id, version) = (webhook.id, webhook.version);
    // Only the host: the rest of the URL may hold a secret of the receiver.
    let before = json!({"name": webhook.name, "host": outbound::host(&webhook.url), "event_types": webhook.event_types,
        "labels": webhook.labels, "enabled": webhook.state == WebhookState::Enabled});
    let commit = PreparedCommand::new(webhook.scope, target("webhook", id, &webhook.name), move |tx| {
        Box::pin(async move {
            let mut removed = BTreeMap::new();
            removed.insert("deliveries", tx.webhook_delete(id, version).await?);
            Ok(Answer::new(&removed_view(&id, removed)))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::WebhookDeleted, subject, told))
}
