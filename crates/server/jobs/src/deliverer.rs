//! Webhook deliverer: pushes events in order, signed and with retries. One deliverer per database, by lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::SignedDuration;
use muster_db::{Delivery, EventFilter, Lease, StoreError};
use muster_ids::{DeliveryId, TenantId};
use muster_model::Scope;
use muster_model::audit::Target;
use muster_model::event::{Event, EventType, NewEvent};
use muster_model::origin::{Audited, Origin};
use muster_model::webhook::{GIVE_UP_AFTER, Webhook, WebhookState, backoff};
use serde_json::json;

use muster_control::{Platform, Word, outbound};

const LEASE: SignedDuration = SignedDuration::from_secs(30);
/// Interval at which the lease is extended, also while receivers are slow.
const EXTEND: Duration = Duration::from_secs(8);
/// Poll interval for due webhooks while others are served.
const LOOK: Duration = Duration::from_secs(1);
/// Number of tenants served concurrently. Slow receivers of one tenant do not delay the others.
const TENANTS_AT_ONCE: usize = 64;
/// Number of webhooks of one tenant served concurrently.
const WEBHOOKS_AT_ONCE: usize = 4;
/// Number of events sent to a webhook per turn.
const EVENTS_A_TURN: usize = 16;

/// The served tenant, and whether any of its webhooks advanced.
type Turn = (Option<TenantId>, Result<bool, StoreError>);

/// Delivers until stopped.
pub async fn deliver(platform: Arc<Platform>, mut stop: tokio::sync::watch::Receiver<bool>) {
    let client = match outbound::client(platform.options.webhooks_to_private) {
        Ok(client) => client,
        Err(error) => {
            return tracing::error!(%error, "webhooks are disabled: the client could not be created");
        }
    };
    let holder = platform.replica.to_string();
    let mut lease: Option<Lease> = None;
    let mut extended = Instant::now();
    while !*stop.borrow() {
        if lease.is_none() {
            let now = platform.env.now();
            lease = platform.store.lease_acquire("deliverer", &holder, LEASE, now).await.unwrap_or(None);
            extended = Instant::now();
        }
        if let Some(held) = &lease
            && let Err(error) = deliver_due(&platform, &client, held, &mut extended).await
        {
            tracing::warn!(%error, "deliveries were interrupted; retrying");
            lease = None;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = platform.tail.sealed.notified(), if lease.is_some() => {}
            _ = stop.changed() => {}
        }
    }
    if let Some(lease) = &lease {
        let _ = platform.store.lease_end(lease).await;
    }
}

/// Serves webhooks until none is due, or the server stops.
async fn deliver_due(
    platform: &Platform,
    client: &reqwest::Client,
    lease: &Lease,
    extended: &mut Instant,
) -> Result<(), StoreError> {
    let mut turns = FuturesUnordered::new();
    // Tenants that are being served, or rest until a time after a turn without progress. A round ends when every turn has ended, and
    // a slow receiver can keep it open for ever, so a rest must end within the round.
    let mut served: HashMap<Option<TenantId>, Option<Instant>> = HashMap::new();
    loop {
        // This loop runs at least once per `LOOK`, however slow the receivers are.
        if extended.elapsed() >= EXTEND {
            let mut tx = platform.store.begin().await?;
            tx.lease_extend(lease, platform.env.now()).await?;
            tx.commit().await?;
            *extended = Instant::now();
        }
        let now = Instant::now();
        served.retain(|_, rests_until| rests_until.is_none_or(|until| now < until));
        let (newest, _) = platform.store.event_stream_head(Scope::Platform).await?;
        let due = platform.store.webhook_due(platform.env.now(), newest, 256).await?;
        let mut waiting: Vec<(Option<TenantId>, Vec<Webhook>)> = Vec::new();
        for webhook in due {
            let tenant = webhook.scope.tenant();
            if served.contains_key(&tenant) {
                continue;
            }
            match waiting.iter_mut().find(|(other, _)| *other == tenant) {
                Some((_, webhooks)) => webhooks.push(webhook),
                None => waiting.push((tenant, vec![webhook])),
            }
        }
        let room = match *platform.stopping.borrow() {
            true => 0,
            false => TENANTS_AT_ONCE.saturating_sub(turns.len()),
        };
        for (tenant, webhooks) in waiting.into_iter().take(room) {
            served.insert(tenant, None);
            turns.push(deliver_turn(platform, client, tenant, webhooks));
        }
        let ended = match tokio::time::timeout(LOOK, turns.next()).await {
            Ok(None) => return Ok(()),
            Ok(Some(ended)) => ended,
            // Others may have become due.
            Err(_) => continue,
        };
        match ended {
            (tenant, Ok(true)) => drop(served.remove(&tenant)),
            // None of its webhooks can advance now.
            (tenant, Ok(false)) => drop(served.insert(tenant, Some(Instant::now() + LOOK))),
            (_, Err(error)) => return Err(error),
        }
    }
}

/// Serves the due webhooks of one tenant.
async fn deliver_turn(
    platform: &Platform,
    client: &reqwest::Client,
    tenant: Option<TenantId>,
    webhooks: Vec<Webhook>,
) -> Turn {
    let moved: Vec<Result<bool, StoreError>> = futures::stream::iter(webhooks)
        .map(|webhook| deliver_some(platform, client, webhook))
        .buffer_unordered(WEBHOOKS_AT_ONCE)
        .collect()
        .await;
    let mut any = false;
    for result in moved {
        match result {
            Ok(moved) => any |= moved,
            // It was changed or deleted meanwhile; the next poll reads the new state.
            Err(StoreError::Fenced | StoreError::Stale | StoreError::Gone(_)) => {}
            Err(error) => return (tenant, Err(error)),
        }
    }
    (tenant, Ok(any))
}

/// Sends a webhook's next events in order; returns whether it advanced.
async fn deliver_some(
    platform: &Platform,
    client: &reqwest::Client,
    mut webhook: Webhook,
) -> Result<bool, StoreError> {
    let mut any = false;
    for _ in 0..EVENTS_A_TURN {
        if *platform.stopping.borrow() {
            break;
        }
        match deliver_next(platform, client, webhook).await? {
            Some(moved) => webhook = moved,
            None => break,
        }
        any = true;
    }
    Ok(any)
}

/// Sends a webhook's next event; returns the updated webhook if it advanced.
async fn deliver_next(
    platform: &Platform,
    client: &reqwest::Client,
    webhook: Webhook,
) -> Result<Option<Webhook>, StoreError> {
    let filter = EventFilter { after: webhook.cursor, limit: 200, ..EventFilter::default() };
    let events = platform.store.event_list(Scope::Platform, &filter).await?;
    // Events from before the webhook's creation may be sealed after it; they are not delivered.
    let wanted = events.iter().find_map(|event| {
        let sequence = event.sequence_in(webhook.scope)?;
        let is_wanted = event.draft.at > webhook.created_at && webhook.wants(&event.draft.event_type);
        is_wanted.then_some((event, sequence))
    });
    let mut after = webhook.clone();
    let Some((event, sequence)) = wanted else {
        let Some(last) = events.last() else { return Ok(None) };
        after.cursor = last.platform_sequence;
        after.attempts = 0;
        let mut tx = platform.store.begin().await?;
        tx.webhook_progress(&webhook, &after).await?;
        tx.commit().await?;
        return Ok(Some(after));
    };
    let outcome = send(platform, client, &webhook, event).await;
    // The delivery may have succeeded; the next deliverer repeats it under the same id.
    if outcome.is_err() && *platform.stopping.borrow() {
        return Ok(None);
    }
    let now = platform.env.now();
    let delivered = outcome.is_ok();
    let result = outcome.unwrap_or_else(|fault| fault);
    platform
        .metrics
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
        id: platform.env.id::<DeliveryId>(),
        event_id: event.draft.id,
        sequence,
        attempt,
        at: now,
        delivered,
        result,
    };
    let mut tx = platform.store.begin().await?;
    tx.webhook_progress(&webhook, &after).await?;
    tx.delivery_insert(webhook.id, &delivery).await?;
    if after.failing_since.is_some_and(|since| now.duration_since(since) > GIVE_UP_AFTER) {
        tx.webhook_failing(webhook.id).await?;
        let origin = Origin::platform(&platform.env, webhook.scope, "webhook deliverer");
        let (audited, event) = gave_up(&webhook);
        tx.outbox_append(&platform.env, &origin, Some(audited), vec![event]).await?;
    }
    tx.commit().await?;
    Ok(delivered.then_some(after))
}

/// Signs and sends an event, following the "Standard Webhooks" specification; returns a description of the response.
async fn send(
    platform: &Platform,
    client: &reqwest::Client,
    webhook: &Webhook,
    event: &Event,
) -> Result<String, String> {
    let owner = webhook.scope.chain();
    let context = format!("webhook {}", webhook.id);
    let secret = platform
        .envelope
        .open(&platform.store, &owner, &context, &webhook.secret_sealed)
        .await
        .map_err(|error| error.to_string())?;
    outbound::check_url(&webhook.url, platform.options.webhooks_to_private)
        .map_err(|error| error.to_string())?;
    let body = muster_control::event::view(event, webhook.scope)
        .map(|view| json!(view).to_string())
        .unwrap_or_default();
    let id = event.draft.id.to_string();
    let timestamp = platform.env.now().as_second().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let mut signing = hmac::Context::with_key(&key);
    for part in [&id, ".", &timestamp, ".", &body] {
        signing.update(part.as_bytes());
    }
    let signature = format!("v1,{}", STANDARD.encode(signing.sign()));
    let request = client
        .post(&webhook.url)
        .header("content-type", "application/cloudevents+json")
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signature)
        .body(body);
    let mut stopping = platform.stopping.subscribe();
    let answer = tokio::select! {
        answer = request.send() => answer.map_err(|error| format!("no response: {}", error.without_url()))?,
        _ = stopping.wait_for(|stopping| *stopping) => return Err("the server stopped".to_owned()),
    };
    let status = answer.status();
    if status.is_success() { Ok(format!("answered {status}")) } else { Err(format!("answered {status}")) }
}

fn gave_up(webhook: &Webhook) -> (Audited, NewEvent) {
    let detail = json!({"name": webhook.name, "state": WebhookState::Failing.as_str(), "last_result": webhook.last_result});
    let target =
        Target { kind: "webhook".to_owned(), id: webhook.id.to_string(), name: Some(webhook.name.clone()) };
    let event = (EventType::WebhookGaveUp, format!("/v1/webhooks/{}", webhook.id), detail.clone());
    (Audited::success("webhook.give_up", target, detail), event)
}
