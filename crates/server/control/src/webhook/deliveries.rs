//! List a webhook's deliveries and their responses.

use muster_api::webhook::{DeliveryListQuery, WebhookDelivery, WebhookDeliveryPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use crate::{Answer, Cx, Result};

/// Handles `webhook_deliveries`.
pub async fn deliveries(cx: &Cx, reference: &str, query: DeliveryListQuery) -> Result<Answer> {
    let webhook = cx.webhook(reference).await?;
    cx.authorize(Permission::WebhookDeliveries, webhook.scope, "webhook")?;
    let list = format!("deliveries {}", webhook.id);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.delivery_list(webhook.id, page).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |delivery| delivery.id.uuid()).await?;
    let items = items.into_iter().map(|delivery| WebhookDelivery {
        id: delivery.id,
        event_id: delivery.event_id,
        sequence: delivery.sequence,
        attempt: delivery.attempt,
        at: delivery.at,
        delivered: delivery.delivered,
        result: delivery.result,
    });
    Ok(Answer::new(&WebhookDeliveryPage { items: items.collect(), next_page_token }))
}
