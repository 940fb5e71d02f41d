//! Webhooks.

use jiff::Timestamp;
use muster_ids::{DeliveryId, EventId, ProjectId, TenantId, WebhookId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, page};
use crate::tenant::Removed;
use crate::{Endpoint, shape};

pub use muster_model::webhook::WebhookState;

/// Delivery of events to a URL, signed and in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Name, unique in its scope.
    pub name: String,
    /// Tenant with the events to deliver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Project with the events to deliver. With neither, the platform's events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Target URL.
    pub url: String,
    /// Event types; empty means all.
    pub event_types: Vec<String>,
    /// Delivery state.
    pub state: WebhookState,
    /// Last event delivered or skipped, by its sequence number in the platform's stream; only for the platform's own
    /// webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    /// Number of delivery attempts for the next event.
    pub attempts: i64,
    /// Time since which all deliveries have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Last response or error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_result: Option<String>,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
    /// The signing key; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// True in a replayed response: the secret was only in the first one and is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
}

/// A webhook to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookCreate {
    /// Name, unique in its scope.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "pager")]
    pub name: String,
    /// Target URL: https, or http to addresses that the operator allowed.
    #[schema(max_length = 2000, example = "https://hooks.acme.example/muster")]
    pub url: String,
    /// Events of this tenant, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Events of this project, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Event types; a trailing `*` is a wildcard; empty means all.
    #[schema(max_items = 50)]
    pub event_types: Option<Vec<String>>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// Properties of a webhook that can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookUpdate {
    /// Target URL.
    #[schema(max_length = 2000)]
    pub url: Option<String>,
    /// Event types; replace the existing ones.
    #[schema(max_items = 50)]
    pub event_types: Option<Vec<String>>,
    /// Disable or re-enable it; it then resumes after the last delivered event.
    pub enabled: Option<bool>,
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
}

/// Filters for listing webhooks.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Of this tenant, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Of this project, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

/// A delivery attempt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WebhookDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// The event.
    pub event_id: EventId,
    /// The event's sequence number in the platform's stream.
    pub sequence: i64,
    /// Number of the attempt for this event, from 1.
    pub attempt: i64,
    /// Time.
    pub at: Timestamp,
    /// Whether the receiver responded with success.
    pub delivered: bool,
    /// Response or error.
    pub result: String,
}

/// Filters for listing delivery attempts.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of webhooks.
    WebhookPage of Webhook
}
page! {
    /// A page of delivery attempts.
    WebhookDeliveryPage of WebhookDelivery
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("webhook_create", "/v1/webhooks", shape::<WebhookCreate>(), shape::<Webhook>())
        .needs("webhook.create")
        .summary("Create a webhook: push events to a URL"),
    Endpoint::read("webhook_list", "/v1/webhooks", shape::<WebhookPage>())
        .needs("webhook.list")
        .query(shape::<WebhookListQuery>())
        .summary("List webhooks"),
    Endpoint::read("webhook_get", "/v1/webhooks/{webhook}", shape::<Webhook>())
        .needs("webhook.get")
        .summary("Show a webhook"),
    Endpoint::update(
        "webhook_update",
        "/v1/webhooks/{webhook}",
        shape::<WebhookUpdate>(),
        shape::<Webhook>(),
    )
    .needs("webhook.update")
    .summary("Change, disable or enable a webhook"),
    Endpoint::delete("webhook_delete", "/v1/webhooks/{webhook}", shape::<Removed>())
        .needs("webhook.delete")
        .summary("Remove a webhook"),
    Endpoint::read("webhook_deliveries", "/v1/webhooks/{webhook}/deliveries", shape::<WebhookDeliveryPage>())
        .needs("webhook.deliveries")
        .query(shape::<DeliveryListQuery>())
        .summary("List deliveries and their responses"),
];
