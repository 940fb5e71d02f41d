//! Webhooks and their deliveries.

use jiff::Timestamp;
use muster_ids::{DeliveryId, EventId, ProjectId, TenantId, WebhookId};
use muster_model::Scope;
use muster_model::webhook::{Webhook, WebhookState};

use crate::sql::{Row, args, both, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT id, name, tenant_id, project_id, url, event_types, state, secret_sealed, cursor, attempts, next_attempt_at,
                failing_since, last_result, labels, created_at, updated_at, version
         FROM webhooks "
    };
}

statements! {
    WEBHOOK_INSERT = both(
        "INSERT INTO webhooks (id, name, tenant_id, project_id, url, event_types, state, secret_sealed, cursor, attempts,
                               next_attempt_at, labels, created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, $11, $12, $13, $14)");
    WEBHOOK_GET = both(concat!(columns!(), "WHERE id = $1"));
    WEBHOOK_LIST = both(concat!(columns!(),
        "WHERE id > $1 AND (($2 AND tenant_id IS NULL) OR tenant_id = $3) AND (($4 AND project_id IS NULL) OR project_id = $5)
         ORDER BY id LIMIT $6"));
    // Fair between tenants: regardless of the number of webhooks, the first of each tenant precede the second of any.
    WEBHOOK_DUE = both(concat!(columns!(), "WHERE id IN (
            SELECT id FROM (
                SELECT id, next_attempt_at,
                       ROW_NUMBER() OVER (PARTITION BY tenant_id ORDER BY next_attempt_at, id) AS turn
                FROM webhooks WHERE state = 'enabled' AND next_attempt_at <= $1 AND cursor < $2) due
            WHERE turn <= 16 ORDER BY turn, next_attempt_at LIMIT $3)
        ORDER BY next_attempt_at, id"));
    WEBHOOK_COUNT = both("SELECT COUNT(*) FROM webhooks WHERE ($1 AND tenant_id IS NULL) OR tenant_id = $2");
    WEBHOOK_UPDATE = both(
        "UPDATE webhooks SET url = $2, event_types = $3, state = $4, labels = $5, updated_at = $6, cursor = $7,
            attempts = $8, next_attempt_at = $9, failing_since = $10, version = version + 1
         WHERE id = $1 AND version = $11");
    // Fields owned by the deliverer. It fences on the cursor, not on the version: a changed URL must not stop it, and two
    // deliverers must not both advance it.
    WEBHOOK_PROGRESS = both(
        "UPDATE webhooks SET cursor = $2, attempts = $3, next_attempt_at = $4, failing_since = $5, last_result = $6
         WHERE id = $1 AND cursor = $7 AND attempts = $8");
    WEBHOOK_FAILING = both("UPDATE webhooks SET state = 'failing', version = version + 1 WHERE id = $1 AND state = 'enabled'");
    WEBHOOK_RESEAL = both("UPDATE webhooks SET secret_sealed = $2 WHERE id = $1 AND secret_sealed = $3");
    WEBHOOK_SEALED_OF_TENANT = both(concat!(columns!(), "WHERE tenant_id = $1 ORDER BY id"));
    WEBHOOK_DELETE = both("DELETE FROM webhooks WHERE id = $1 AND version = $2");
    WEBHOOK_DELETE_OF_PROJECT = both("DELETE FROM webhooks WHERE project_id = $1");
    WEBHOOK_DELETE_OF_TENANT = both("DELETE FROM webhooks WHERE tenant_id = $1");
    DELIVERY_INSERT = both(
        "INSERT INTO webhook_deliveries (id, webhook_id, event_id, sequence, attempt, at, delivered, result)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    DELIVERY_LIST = both(
        "SELECT id, event_id, sequence, attempt, at, delivered, result FROM webhook_deliveries
         WHERE webhook_id = $1 AND id > $2 ORDER BY id LIMIT $3");
    DELIVERY_DELETE = both("DELETE FROM webhook_deliveries WHERE webhook_id = $1");
    DELIVERY_DELETE_OF_PROJECT = both(
        "DELETE FROM webhook_deliveries WHERE webhook_id IN (SELECT id FROM webhooks WHERE project_id = $1)");
    DELIVERY_DELETE_OF_TENANT = both(
        "DELETE FROM webhook_deliveries WHERE webhook_id IN (SELECT id FROM webhooks WHERE tenant_id = $1)");
}

fn webhook(row: &Row) -> Result<Webhook> {
    let types: serde_json::Value = row.get(5)?;
    let state: String = row.get(6)?;
    Ok(Webhook {
        id: row.get(0)?,
        name: row.get(1)?,
        scope: Scope::from_columns(row.get(2)?, row.get(3)?),
        url: row.get(4)?,
        event_types: serde_json::from_value(types).map_err(|_| StoreError::Corrupt("event types"))?,
        state: WebhookState::parse(&state).ok_or(StoreError::Corrupt("a webhook's state"))?,
        secret_sealed: row.get(7)?,
        cursor: row.get(8)?,
        attempts: row.get(9)?,
        next_attempt_at: row.get(10)?,
        failing_since: row.get(11)?,
        last_result: row.get(12)?,
        labels: row.get(13)?,
        created_at: row.get(14)?,
        updated_at: row.get(15)?,
        version: row.get(16)?,
    })
}

/// A delivery attempt.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// The event.
    pub event_id: EventId,
    /// Its number in the webhook's own stream.
    pub sequence: i64,
    /// The attempt's number, from 1.
    pub attempt: i64,
    /// Time of the attempt.
    pub at: Timestamp,
    /// Whether it succeeded.
    pub delivered: bool,
    /// The response or the error.
    pub result: String,
}

impl Store {
    /// Returns the webhook with this id.
    pub async fn webhook_lookup(&self, id: WebhookId) -> Result<Option<Webhook>> {
        self.fetch_optional(&WEBHOOK_GET, args![id]).await?.as_ref().map(webhook).transpose()
    }

    /// Returns the webhooks of exactly this scope.
    pub async fn webhook_list(&self, page: Page, scope: Scope) -> Result<Vec<Webhook>> {
        let (tenant, project) = (scope.tenant(), scope.project());
        let args = args![page.after, tenant.is_none(), tenant, project.is_none(), project, page.size];
        self.fetch_all(&WEBHOOK_LIST, args).await?.iter().map(webhook).collect()
    }

    /// Returns webhooks with events to deliver now, at most 16 of a tenant.
    pub async fn webhook_due(&self, now: Timestamp, newest_event: i64, limit: i64) -> Result<Vec<Webhook>> {
        self.fetch_all(&WEBHOOK_DUE, args![now, newest_event, limit]).await?.iter().map(webhook).collect()
    }

    /// Returns a tenant's webhooks, including those of its projects.
    pub async fn webhook_of_tenant(&self, tenant: TenantId) -> Result<Vec<Webhook>> {
        self.fetch_all(&WEBHOOK_SEALED_OF_TENANT, args![tenant]).await?.iter().map(webhook).collect()
    }

    /// Returns the delivery attempts of a webhook, oldest first.
    pub async fn delivery_list(&self, id: WebhookId, page: Page) -> Result<Vec<Delivery>> {
        let rows = self.fetch_all(&DELIVERY_LIST, args![id, page.after, page.size]).await?;
        rows.iter()
            .map(|row| {
                Ok(Delivery {
                    id: row.get(0)?,
                    event_id: row.get(1)?,
                    sequence: row.get(2)?,
                    attempt: row.get(3)?,
                    at: row.get(4)?,
                    delivered: row.get(5)?,
                    result: row.get(6)?,
                })
            })
            .collect()
    }
}

impl Tx {
    /// Counts the webhooks of a tenant, including those of its projects, or of the platform.
    pub async fn webhook_count(&mut self, tenant: Option<TenantId>) -> Result<i64> {
        let rows = self.fetch_all(&WEBHOOK_COUNT, args![tenant.is_none(), tenant]).await?;
        rows.first().map(|row| row.get(0)).transpose().map(Option::unwrap_or_default)
    }

    /// Adds a webhook.
    pub async fn webhook_insert(&mut self, webhook: &Webhook) -> Result<()> {
        let args = args![
            webhook.id,
            &webhook.name,
            webhook.scope.tenant(),
            webhook.scope.project(),
            &webhook.url,
            serde_json::json!(webhook.event_types),
            webhook.state.as_str(),
            webhook.secret_sealed.clone(),
            webhook.cursor,
            webhook.next_attempt_at,
            &webhook.labels,
            webhook.created_at,
            webhook.updated_at,
            webhook.version
        ];
        self.insert(&WEBHOOK_INSERT, args).await
    }

    /// Updates a webhook that still has the version before `webhook.version`.
    pub async fn webhook_update(&mut self, webhook: &Webhook) -> Result<()> {
        let args = args![
            webhook.id,
            &webhook.url,
            serde_json::json!(webhook.event_types),
            webhook.state.as_str(),
            &webhook.labels,
            webhook.updated_at,
            webhook.cursor,
            webhook.attempts,
            webhook.next_attempt_at,
            webhook.failing_since,
            webhook.version - 1
        ];
        self.execute_one(&WEBHOOK_UPDATE, args, StoreError::Stale).await
    }

    /// Advances a webhook from the position that the deliverer read (`before`).
    pub async fn webhook_progress(&mut self, before: &Webhook, after: &Webhook) -> Result<()> {
        let args = args![
            after.id,
            after.cursor,
            after.attempts,
            after.next_attempt_at,
            after.failing_since,
            after.last_result.clone(),
            before.cursor,
            before.attempts
        ];
        self.execute_one(&WEBHOOK_PROGRESS, args, StoreError::Fenced).await
    }

    /// Disables a webhook after its deliveries have failed for too long.
    pub async fn webhook_failing(&mut self, id: WebhookId) -> Result<()> {
        self.execute_one(&WEBHOOK_FAILING, args![id], StoreError::Stale).await
    }

    /// Replaces a sealed secret that still equals `before`.
    pub async fn webhook_reseal(&mut self, id: WebhookId, sealed: Vec<u8>, before: Vec<u8>) -> Result<()> {
        self.execute_one(&WEBHOOK_RESEAL, args![id, sealed, before], StoreError::Stale).await
    }

    /// Removes a webhook and its delivery attempts.
    pub async fn webhook_delete(&mut self, id: WebhookId, version: i64) -> Result<i64> {
        let deliveries = self.execute(&DELIVERY_DELETE, args![id]).await?;
        self.execute_one(&WEBHOOK_DELETE, args![id, version], StoreError::Stale).await?;
        Ok(deliveries as i64)
    }

    /// Removes a project's webhooks.
    pub async fn webhook_delete_of_project(&mut self, project: ProjectId) -> Result<i64> {
        self.execute(&DELIVERY_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&WEBHOOK_DELETE_OF_PROJECT, args![project]).await.map(|count| count as i64)
    }

    /// Removes a tenant's webhooks, including those of its projects.
    pub async fn webhook_delete_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        self.execute(&DELIVERY_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&WEBHOOK_DELETE_OF_TENANT, args![tenant]).await.map(|count| count as i64)
    }

    /// Records a delivery attempt.
    pub async fn delivery_insert(&mut self, webhook: WebhookId, delivery: &Delivery) -> Result<()> {
        let args = args![
            delivery.id,
            webhook,
            delivery.event_id,
            delivery.sequence,
            delivery.attempt,
            delivery.at,
            delivery.delivered,
            &delivery.result
        ];
        self.execute(&DELIVERY_INSERT, args).await.map(drop)
    }
}
