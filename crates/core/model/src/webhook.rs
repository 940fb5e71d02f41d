//! Webhooks: events pushed to a URL, signed, in order, with retries.

use jiff::{SignedDuration, Timestamp};
use muster_ids::WebhookId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Labels, Scope};

/// Delivery state of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookState {
    /// Events are delivered.
    Enabled,
    /// Disabled by its owner; when enabled again, it continues after the last delivered event.
    Disabled,
    /// Disabled by the platform after a day of failures; its cursor is kept.
    Failing,
}

impl WebhookState {
    /// All values.
    pub const ALL: [WebhookState; 3] = [WebhookState::Enabled, WebhookState::Disabled, WebhookState::Failing];

    /// Returns its name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookState::Enabled => "enabled",
            WebhookState::Disabled => "disabled",
            WebhookState::Failing => "failing",
        }
    }

    /// Parses a state from its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// A stored webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its name, unique in its scope.
    pub name: String,
    /// Scope of its events.
    pub scope: Scope,
    /// Target of the deliveries.
    pub url: String,
    /// Event types; empty means all. A trailing `*` matches the rest.
    pub event_types: Vec<String>,
    /// Its state.
    pub state: WebhookState,
    /// The signing key, sealed under the scope's key.
    pub secret_sealed: Vec<u8>,
    /// The last event that was delivered or skipped, by platform sequence.
    pub cursor: i64,
    /// Number of attempts for the next event.
    pub attempts: i64,
    /// Time of the next attempt.
    pub next_attempt_at: Timestamp,
    /// Time since which deliveries fail; absent while they succeed.
    pub failing_since: Option<Timestamp>,
    /// Last response or error, as a message.
    pub last_result: Option<String>,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Webhook {
    /// Reports whether it subscribes to events of this type.
    pub fn wants(&self, event_type: &str) -> bool {
        self.event_types.is_empty()
            || self.event_types.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => event_type.starts_with(prefix),
                None => event_type == pattern,
            })
    }
}

/// Returns the backoff: doubling from a second to ten minutes.
pub fn backoff(attempts: i64) -> SignedDuration {
    let doublings = u32::try_from(attempts.clamp(0, 10)).unwrap_or(10);
    SignedDuration::from_secs((1i64 << doublings).min(600))
}

/// Time without a success after which the platform disables a webhook.
pub const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::backoff;

    #[test]
    fn waits_double_and_are_bounded() {
        assert_eq!(backoff(0).as_secs(), 1);
        assert_eq!(backoff(3).as_secs(), 8);
        assert_eq!(backoff(1_000).as_secs(), 600);
    }
}
