//! List the webhooks of a scope.

use muster_api::webhook::{WebhookListQuery, WebhookPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `webhook_list`.
pub async fn list(cx: &Cx, query: WebhookListQuery) -> Result<Answer> {
    let scope = cx.scope(query.tenant.as_deref(), query.project.as_deref()).await?;
    cx.authorize(Permission::WebhookList, scope, "scope")?;
    let list = format!("webhooks {scope:?}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.webhook_list(page, scope).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |webhook| webhook.id.uuid()).await?;
    Ok(Answer::new(&WebhookPage { items: items.iter().map(view).collect(), next_page_token }))
}
