//! Webhooks.

use jiff::Timestamp;
use muster_ids::{DeliveryId, EventId, ProjectId, TenantId, WebhookId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, page};
use crate::tenant::Removed;
use crate::{Operation, shape};

/// Whether events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookState {
    /// Events flow.
    Enabled,
    /// Switched off by its owner.
    Disabled,
    /// Switched off by the platform after a day of failures.
    Failing,
}

/// Events pushed to a URL, signed and in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its name, unique where it belongs.
    pub name: String,
    /// Whose events: a tenant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Whose events: a project's. With neither, the platform's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Where they go.
    pub url: String,
    /// Which types; empty means all.
    pub event_types: Vec<String>,
    /// Whether it is on.
    pub state: WebhookState,
    /// The last event that was delivered or passed over, by its number in the platform's stream; of the platform's own webhooks
    /// alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<i64>,
    /// How often the next event was tried.
    pub attempts: i64,
    /// Since when nothing got through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// The last answer or fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_result: Option<String>,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
    /// The signing key, in the one answer that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// True in a replayed answer: the secret was in the first one and is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_shown_once: Option<bool>,
}

/// A webhook to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookCreate {
    /// Its name, unique where it belongs.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "pager")]
    pub name: String,
    /// Where events go: https, or http to addresses that the operator allowed.
    #[schema(max_length = 2000, example = "https://hooks.acme.example/muster")]
    pub url: String,
    /// A tenant's events, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// A project's events, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Which types; a trailing `*` matches the rest; none means all.
    #[schema(max_items = 50)]
    pub event_types: Option<Vec<String>>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// What of a webhook can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookUpdate {
    /// Where events go.
    #[schema(max_length = 2000)]
    pub url: Option<String>,
    /// Which types; they replace the old ones.
    #[schema(max_items = 50)]
    pub event_types: Option<Vec<String>>,
    /// Switches it off, or on again: then it goes on after the last event that got through.
    pub enabled: Option<bool>,
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
}

/// Whose webhooks to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// A tenant's, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// A project's, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

/// One attempt to deliver.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WebhookDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// Which event.
    pub event_id: EventId,
    /// That event's platform number.
    pub sequence: i64,
    /// Which attempt at it, from 1.
    pub attempt: i64,
    /// When.
    pub at: Timestamp,
    /// Whether the receiver answered with a success.
    pub delivered: bool,
    /// The answer or the fault.
    pub result: String,
}

/// A page of attempts.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of webhooks.
    WebhookPage of Webhook
}
page! {
    /// A page of attempts to deliver.
    WebhookDeliveryPage of WebhookDelivery
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("webhook_create", "/v1/webhooks", shape::<WebhookCreate>(), shape::<Webhook>())
        .needs("webhook.create")
        .summary("Have events pushed to a URL"),
    Operation::read("webhook_list", "/v1/webhooks", shape::<WebhookPage>())
        .needs("webhook.list")
        .query(shape::<WebhookListQuery>())
        .summary("List webhooks"),
    Operation::read("webhook_get", "/v1/webhooks/{webhook}", shape::<Webhook>())
        .needs("webhook.get")
        .summary("Show a webhook"),
    Operation::update(
        "webhook_update",
        "/v1/webhooks/{webhook}",
        shape::<WebhookUpdate>(),
        shape::<Webhook>(),
    )
    .needs("webhook.update")
    .summary("Change a webhook, or switch it off or on"),
    Operation::delete("webhook_delete", "/v1/webhooks/{webhook}", shape::<Removed>())
        .needs("webhook.delete")
        .summary("Remove a webhook"),
    Operation::read(
        "webhook_deliveries",
        "/v1/webhooks/{webhook}/deliveries",
        shape::<WebhookDeliveryPage>(),
    )
    .needs("webhook.deliveries")
    .query(shape::<DeliveryListQuery>())
    .summary("Show what was sent, and how it was answered"),
];
