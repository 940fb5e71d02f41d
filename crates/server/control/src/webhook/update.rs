//! Change, enable or disable a webhook.

use muster_api::webhook::WebhookUpdate;
use muster_authz::Permission;
use muster_model::event::EventType;
use muster_model::webhook::WebhookState;
use serde_json::json;

use super::{path, view};
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, PreparedCommand, Result, outbound};

/// Prepares `webhook_update`.
pub async fn update(cx: &Cx, reference: &str, body: WebhookUpdate) -> Result<PreparedCommand> {
    let mut webhook = cx.webhook(reference).await?;
    cx.authorize(Permission::WebhookUpdate, webhook.scope, "webhook")?;
    cx.expect_version(webhook.version)?;
    let before = json!({"host": outbound::host(&webhook.url), "event_types": webhook.event_types, "labels": webhook.labels,
        "enabled": webhook.state == WebhookState::Enabled});
    let told = changed(
        &before,
        &[
            ("host", body.url.as_ref().map(|url| json!(outbound::host(url)))),
            ("event_types", body.event_types.as_ref().map(|types| json!(types))),
            ("enabled", body.enabled.map(|enabled| json!(enabled))),
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
        ],
    );
    if let Some(url) = body.url {
        outbound::check_url(&url, cx.platform.options.webhooks_to_private)?;
        webhook.url = url;
    }
    if let Some(types) = body.event_types {
        webhook.event_types = types;
    }
    if let Some(enabled) = body.enabled {
        webhook.state = if enabled { WebhookState::Enabled } else { WebhookState::Disabled };
        webhook.attempts = 0;
        webhook.failing_since = None;
        webhook.next_attempt_at = cx.now;
    }
    if body.labels.is_some() {
        webhook.labels = checked_labels(body.labels)?;
    }
    webhook.updated_at = cx.now;
    webhook.version += 1;
    let subject = path(&webhook);
    let commit =
        PreparedCommand::new(webhook.scope, target("webhook", webhook.id, &webhook.name), move |tx| {
            Box::pin(async move {
                tx.webhook_update(&webhook).await?;
                Ok(Answer::new(&view(&webhook)))
            })
        });
    Ok(commit.event(cx, EventType::WebhookUpdated, subject, told))
}
