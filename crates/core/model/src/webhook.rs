//! Webhooks: events pushed to a URL, signed, in order, retried.

use jiff::{SignedDuration, Timestamp};
use muster_ids::WebhookId;

use crate::{Labels, Scope};

/// Whether events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookState {
    /// Events flow.
    Enabled,
    /// Switched off by its owner; switched on again, it goes on after the last event that got through.
    Disabled,
    /// Switched off by the platform after a day of failures; its cursor is kept.
    Failing,
}

impl WebhookState {
    /// All of them.
    pub const ALL: [WebhookState; 3] = [WebhookState::Enabled, WebhookState::Disabled, WebhookState::Failing];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookState::Enabled => "enabled",
            WebhookState::Disabled => "disabled",
            WebhookState::Failing => "failing",
        }
    }

    /// The state that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// A webhook as the store knows it.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its name, unique in its scope.
    pub name: String,
    /// Whose events it gets.
    pub scope: Scope,
    /// Where they go.
    pub url: String,
    /// Which types; empty means all. A trailing `*` matches the rest.
    pub event_types: Vec<String>,
    /// Whether it is on.
    pub state: WebhookState,
    /// The signing key, sealed under the scope's key.
    pub secret_sealed: Vec<u8>,
    /// The last event that was delivered or skipped, by platform sequence.
    pub cursor: i64,
    /// How often the next event was tried.
    pub attempts: i64,
    /// When it is tried next.
    pub next_attempt_at: Timestamp,
    /// Since when nothing got through; absent while deliveries succeed.
    pub failing_since: Option<Timestamp>,
    /// The last answer or fault, as a sentence.
    pub last_result: Option<String>,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Webhook {
    /// Whether it wants events of this type.
    pub fn wants(&self, event_type: &str) -> bool {
        self.event_types.is_empty()
            || self.event_types.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => event_type.starts_with(prefix),
                None => event_type == pattern,
            })
    }
}

/// How long to wait before trying again: doubling from a second to ten minutes.
pub fn backoff(attempts: i64) -> SignedDuration {
    let doublings = u32::try_from(attempts.clamp(0, 10)).unwrap_or(10);
    SignedDuration::from_secs((1i64 << doublings).min(600))
}

/// After this long without one success the platform stops trying and says so.
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
