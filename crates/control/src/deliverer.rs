//! Webhooks: events pushed in order, signed, retried. One deliverer per database, leased.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use jiff::SignedDuration;
use muster_ids::{AuditId, DeliveryId, EventId};
use muster_model::Scope;
use muster_model::audit::{Actor, Entry, Outcome, Target};
use muster_model::event::{Draft, Event, EventType};
use muster_model::webhook::{GIVE_UP_AFTER, Webhook, WebhookState, backoff};
use muster_store::{Delivery, EventFilter, Lease, StoreError};
use serde_json::json;

use crate::Platform;
use crate::metrics::Word;
use crate::outbound;

const LEASE: SignedDuration = SignedDuration::from_secs(30);
/// How often it is extended. Each round would be a commit for every few events, most of them with nothing to deliver.
const EXTEND: Duration = Duration::from_secs(8);
/// Webhooks served at once: a slow receiver holds up nobody else's events for long.
const AT_ONCE: usize = 16;

impl Platform {
    /// Delivers until told to stop.
    pub async fn run_deliverer(self: Arc<Self>, mut stop: tokio::sync::watch::Receiver<bool>) {
        let client = match outbound::client(self.options.webhooks_to_private) {
            Ok(client) => client,
            Err(error) => return tracing::error!(%error, "webhooks are off: no client could be made"),
        };
        let holder = self.replica.to_string();
        let mut lease: Option<Lease> = None;
        let mut extended = std::time::Instant::now();
        while !*stop.borrow() {
            if lease.is_none() {
                let now = self.world.now();
                lease = self.store.lease_acquire("deliverer", &holder, LEASE, now).await.unwrap_or(None);
                extended = std::time::Instant::now();
            }
            if let Some(held) = &lease
                && let Err(error) = self.deliver_round(&client, held, &mut extended).await
            {
                tracing::warn!(%error, "a round of deliveries failed; it is tried again");
                lease = None;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                () = self.tail.sealed.notified(), if lease.is_some() => {}
                _ = stop.changed() => {}
            }
        }
        if let Some(lease) = &lease {
            let _ = self.store.lease_end(lease).await;
        }
    }

    async fn deliver_round(
        &self,
        client: &reqwest::Client,
        lease: &Lease,
        extended: &mut std::time::Instant,
    ) -> Result<(), StoreError> {
        loop {
            if extended.elapsed() >= EXTEND {
                let mut tx = self.store.begin().await?;
                tx.lease_extend(lease, self.world.now()).await?;
                tx.commit().await?;
                *extended = std::time::Instant::now();
            }
            let (newest, _) = self.store.event_stream_head(Scope::Platform).await?;
            let due = self.store.webhook_due(self.world.now(), newest, 256).await?;
            if due.is_empty() {
                return Ok(());
            }
            let moved: Vec<Result<bool, StoreError>> = futures::stream::iter(due)
                .map(|webhook| self.deliver_next(client, webhook))
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            let mut any = false;
            for result in moved {
                match result {
                    Ok(moved) => any |= moved,
                    // Somebody changed or removed it meanwhile; the next look sees that.
                    Err(StoreError::Fenced | StoreError::Stale | StoreError::Gone(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            if !any {
                return Ok(());
            }
        }
    }

    /// Sends the next event that a webhook wants; says whether it moved on.
    async fn deliver_next(&self, client: &reqwest::Client, webhook: Webhook) -> Result<bool, StoreError> {
        let filter = EventFilter { after: webhook.cursor, event_type: None, limit: 200 };
        let events = self.store.event_list(Scope::Platform, &filter).await?;
        let wanted = events.iter().find(|event| {
            event.sequence_in(webhook.scope).is_some() && webhook.wants(&event.draft.event_type)
        });
        let mut after = webhook.clone();
        let Some(event) = wanted else {
            let Some(last) = events.last() else { return Ok(false) };
            after.cursor = last.platform_sequence;
            after.attempts = 0;
            let mut tx = self.store.begin().await?;
            tx.webhook_progress(&webhook, &after).await?;
            tx.commit().await?;
            return Ok(true);
        };
        let outcome = self.send(client, &webhook, event).await;
        let now = self.world.now();
        let delivered = outcome.is_ok();
        let result = outcome.unwrap_or_else(|fault| fault);
        self.metrics
            .deliveries
            .get_or_create(&Word { what: if delivered { "delivered" } else { "failed" }.to_owned() })
            .inc();
        let attempt = webhook.attempts + 1;
        if delivered {
            after.cursor = event.platform_sequence;
            after.attempts = 0;
            after.failing_since = None;
            after.next_attempt_at = now;
        } else {
            after.attempts = attempt;
            after.failing_since = webhook.failing_since.or(Some(now));
            after.next_attempt_at = now + backoff(webhook.attempts);
        }
        after.last_result = Some(result.clone());
        let delivery = Delivery {
            id: self.world.id::<DeliveryId>(),
            event_id: event.draft.id,
            sequence: event.platform_sequence,
            attempt,
            at: now,
            delivered,
            result,
        };
        let mut tx = self.store.begin().await?;
        tx.webhook_progress(&webhook, &after).await?;
        tx.delivery_insert(webhook.id, &delivery).await?;
        if after.failing_since.is_some_and(|since| now.duration_since(since) > GIVE_UP_AFTER) {
            tx.webhook_failing(webhook.id).await?;
            let (entry, event) = self.gave_up(&webhook);
            let (entry, events) = (json!(entry).to_string(), json!([event]).to_string());
            tx.unsealed_insert(self.world.uuid(), &webhook.scope.chain(), &entry, &events).await?;
        }
        tx.commit().await?;
        Ok(delivered)
    }

    /// Signs and sends, after the "Standard Webhooks" conventions; the sentence says how it was answered.
    async fn send(
        &self,
        client: &reqwest::Client,
        webhook: &Webhook,
        event: &Event,
    ) -> Result<String, String> {
        let owner = webhook.scope.chain();
        let context = format!("webhook {}", webhook.id);
        let secret = self
            .envelope
            .open(&self.store, &owner, &context, &webhook.secret_sealed)
            .await
            .map_err(|problem| problem.detail)?;
        outbound::check_url(&webhook.url, self.options.webhooks_to_private)
            .map_err(|problem| problem.detail)?;
        let body =
            crate::event::view(event, webhook.scope).map(|view| json!(view).to_string()).unwrap_or_default();
        let id = event.draft.id.to_string();
        let timestamp = self.world.now().as_second().to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let mut signing = hmac::Context::with_key(&key);
        for part in [&id, ".", &timestamp, ".", &body] {
            signing.update(part.as_bytes());
        }
        let signature = format!("v1,{}", STANDARD.encode(signing.sign()));
        let answer = client
            .post(&webhook.url)
            .header("content-type", "application/cloudevents+json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body)
            .send()
            .await
            .map_err(|error| format!("no answer: {}", error.without_url()))?;
        let status = answer.status();
        if status.is_success() { Ok(format!("answered {status}")) } else { Err(format!("answered {status}")) }
    }

    fn gave_up(&self, webhook: &Webhook) -> (Entry, Draft) {
        let now = self.world.now();
        let correlation_id = muster_model::hex::encode(&self.world.bytes::<16>());
        let detail = json!({"name": webhook.name, "state": WebhookState::Failing.as_str(), "last_result": webhook.last_result});
        let (tenant_id, project_id) = (webhook.scope.tenant(), webhook.scope.project());
        let entry = Entry {
            id: self.world.id::<AuditId>(),
            at: now,
            actor: Actor { kind: "platform".into(), id: "platform".into(), name: "webhook deliverer".into() },
            action: "webhook.give_up".to_owned(),
            outcome: Outcome::Succeeded,
            code: None,
            target: Some(Target {
                kind: "webhook".to_owned(),
                id: webhook.id.to_string(),
                name: Some(webhook.name.clone()),
            }),
            tenant_id,
            project_id,
            correlation_id: correlation_id.clone(),
            count: 1,
            detail: detail.clone(),
        };
        let event = Draft {
            id: self.world.id::<EventId>(),
            event_type: EventType::WebhookGaveUp.as_str().to_owned(),
            subject: format!("/v1/webhooks/{}", webhook.id),
            at: now,
            tenant_id,
            project_id,
            correlation_id,
            actor_id: "platform".to_owned(),
            data: detail,
        };
        (entry, event)
    }
}
