//! Webhooks.

mod create;
mod delete;
mod deliveries;
mod get;
mod list;
mod update;

pub use create::create;
pub use delete::delete;
pub use deliveries::deliveries;
pub use get::get;
pub use list::list;
pub use update::update;

use muster_api::webhook as api;
use muster_model::webhook::Webhook;

pub(crate) fn view(webhook: &Webhook) -> api::Webhook {
    api::Webhook {
        id: webhook.id,
        name: webhook.name.clone(),
        tenant_id: webhook.scope.tenant(),
        project_id: webhook.scope.project(),
        url: webhook.url.clone(),
        event_types: webhook.event_types.clone(),
        state: webhook.state,
        // The position in the platform's stream is of no use to a tenant, and would reveal the activity of others.
        cursor: webhook.scope.tenant().is_none().then_some(webhook.cursor),
        attempts: webhook.attempts,
        failing_since: webhook.failing_since,
        last_result: webhook.last_result.clone(),
        labels: webhook.labels.clone(),
        created_at: webhook.created_at,
        updated_at: webhook.updated_at,
        version: webhook.version,
        secret: None,
        secret_shown_once: None,
    }
}

pub(crate) fn path(webhook: &Webhook) -> String {
    format!("/v1/webhooks/{}", webhook.id)
}
