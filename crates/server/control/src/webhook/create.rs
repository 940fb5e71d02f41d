//! Create a webhook that pushes events to a URL. The signing key is generated here, returned once, and stored sealed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::Code;
use muster_api::webhook::WebhookCreate;
use muster_authz::Permission;
use muster_ids::WebhookId;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::webhook::{Webhook, WebhookState};
use serde_json::json;

use super::{path, view};
use crate::commit::target;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result, outbound};

/// Maximum number of webhooks per tenant, including its projects.
const MOST: i64 = 100;

/// Prepares `webhook_create`.
pub async fn create(cx: &Cx, body: WebhookCreate) -> Result<PreparedCommand> {
    let scope = cx.scope(body.tenant.as_deref(), body.project.as_deref()).await?;
    cx.authorize(Permission::WebhookCreate, scope, "scope")?;
    let platform = &cx.platform;
    outbound::check_url(&body.url, platform.options.webhooks_to_private)?;
    let id: WebhookId = platform.env.id();
    let key: [u8; 32] = platform.env.bytes();
    let sealed =
        platform.envelope.seal(&platform.store, &scope.chain(), &format!("webhook {id}"), &key).await?;
    // It starts with events from now on.
    let (cursor, _) = platform.store.event_stream_head(Scope::Platform).await?;
    let webhook = Webhook {
        id,
        name: body.name,
        scope,
        url: body.url,
        event_types: body.event_types.unwrap_or_default(),
        state: WebhookState::Enabled,
        secret_sealed: sealed,
        cursor,
        attempts: 0,
        next_attempt_at: cx.now,
        failing_since: None,
        last_result: None,
        labels: checked_labels(body.labels)?,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let (subject, told) =
        (path(&webhook), json!({"name": webhook.name, "host": outbound::host(&webhook.url)}));
    let commit = PreparedCommand::new(scope, target("webhook", id, &webhook.name), move |tx| {
        Box::pin(async move {
            if tx.webhook_count(scope.tenant()).await? >= MOST {
                let detail = format!(
                    "a tenant has at most {MOST} webhooks: remove one, or subscribe an existing one to more event types"
                );
                return Err(Error::new(Code::QuotaExceeded, detail));
            }
            tx.webhook_insert(&webhook).await?;
            Ok(Answer::new(&view(&webhook)).with_secret("secret", &format!("whsec_{}", STANDARD.encode(key))))
        })
    });
    Ok(commit.event(cx, EventType::WebhookCreated, subject, told))
}
