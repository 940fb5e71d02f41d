//! Show a webhook.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `webhook_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    let webhook = cx.webhook(reference).await?;
    cx.authorize(Permission::WebhookGet, webhook.scope, "webhook")?;
    Ok(Answer::new(&view(&webhook)))
}
