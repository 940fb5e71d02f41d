//! A lease on one step: kept by heartbeats, and dropped immediately when it is lost.

use std::sync::Arc;
use std::time::Duration;

use muster_sdk::types::{AdapterStep, AdapterStepHeartbeat};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::adapter::{Done, Failure, shortened};
use crate::backoff::{Backoff, Chance};
use crate::platform::{Platform, RetryDecision, classify, detail};

/// Reason a lease was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Refused by the platform: it changed hands, or the step is over or cancelled.
    Fenced(String),
    /// No heartbeat succeeded within its lifetime, so another adapter may hold it.
    Lapsed,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fenced(why) => f.write_str(why),
            Self::Lapsed => f.write_str("a heartbeat was missed"),
        }
    }
}

/// Result of a heartbeat.
enum Beat {
    Kept,
    Lost,
    Unheard,
}

/// A lease on one step.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) platform: Arc<Platform>,
    pub(crate) step: String,
    pub(crate) generation: i64,
    chance: Chance,
    pub(crate) seconds: i64,
    /// Send time of the last successful heartbeat.
    kept_at: Mutex<Instant>,
    lost: watch::Sender<Option<Lost>>,
}

impl Lease {
    /// Returns the lease under which this step was delivered.
    pub(crate) fn new(
        platform: &Arc<Platform>,
        step: &AdapterStep,
        chance: &Chance,
        given_at: Instant,
    ) -> Self {
        Self {
            platform: platform.clone(),
            step: step.id.to_string(),
            generation: step.generation,
            chance: chance.clone(),
            seconds: platform.lease_seconds(),
            kept_at: Mutex::new(given_at),
            lost: watch::Sender::new(None),
        }
    }

    fn life(&self) -> Duration {
        Duration::from_secs(self.seconds.unsigned_abs())
    }

    fn left(&self) -> Duration {
        self.life().saturating_sub(self.kept_at.lock().elapsed())
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(&self.chance)
    }

    /// Keeps the lease with a heartbeat in each third of its lifetime; returns only when it is lost.
    pub(crate) async fn keep(&self) -> Lost {
        let third = self.life() / 3;
        let mut backoff = self.backoff();
        let mut pause = self.chance.about(third);
        loop {
            tokio::select! {
                () = self.loss() => {}
                () = tokio::time::sleep(pause.min(self.left())) => match self.beat().await {
                    Beat::Kept => {
                        backoff.reset();
                        pause = self.chance.about(third);
                    }
                    Beat::Unheard => {
                        // Wake up at the lease's end at the latest, however long the backoff has become.
                        let _ = tokio::time::timeout(self.left(), backoff.pause(None)).await;
                        pause = Duration::ZERO;
                    }
                    Beat::Lost => {}
                },
            }
            if let Some(lost) = self.lost.borrow().clone() {
                return lost;
            }
            if self.left().is_zero() {
                self.lost.send_replace(Some(Lost::Lapsed));
                return Lost::Lapsed;
            }
        }
    }

    /// Waits until the lease is known to be lost.
    async fn loss(&self) {
        // We own the sender, so this only ends with a loss.
        let _ = self.lost.subscribe().wait_for(Option::is_some).await;
    }

    /// Sends one heartbeat. Any refusal means that the lease is lost: a heartbeat has no other reason to fail.
    async fn beat(&self) -> Beat {
        let sent_at = Instant::now();
        let heartbeat =
            AdapterStepHeartbeat { generation: self.generation, lease_seconds: Some(self.seconds) };
        let call = self.platform.say("heartbeat", &self.step, &heartbeat);
        // A missing response must leave time for further attempts.
        let patience = self.left().min(self.life() / 6).max(Duration::from_millis(100));
        match tokio::time::timeout(patience, call).await {
            Ok(Ok(_)) => {
                *self.kept_at.lock() = sent_at;
                Beat::Kept
            }
            Ok(Err(error)) => match classify(&error) {
                RetryDecision::Refused(why) => {
                    self.lost.send_replace(Some(Lost::Fenced(why)));
                    Beat::Lost
                }
                RetryDecision::Again(_) => Beat::Unheard,
            },
            Err(_) => Beat::Unheard,
        }
    }

    /// Checks whether a refusal of another request came from a lost lease. Only a heartbeat answers that reliably: a code
    /// alone would not, because a task may be refused for its own reasons. Never returns if the lease is lost: the caller
    /// is then dropped.
    pub(crate) async fn must_be_ours(&self) {
        let mut backoff = self.backoff();
        loop {
            match self.beat().await {
                Beat::Kept => return,
                Beat::Lost => return std::future::pending().await,
                Beat::Unheard => backoff.pause(None).await,
            }
        }
    }

    /// Sends a report that must arrive: retries until it does, or until the lease is lost.
    async fn settle(&self, what: &str, body: &(impl Serialize + Sync)) -> Result<(), String> {
        let mut backoff = self.backoff();
        loop {
            match self.platform.say(what, &self.step, body).await {
                Ok(step) => {
                    for report in &step.refused_reports {
                        tracing::warn!(step = %self.step, member = %report.member_id, incarnation = report.incarnation,
                                       reason = %report.reason, "a report on a member was rejected");
                    }
                    return Ok(());
                }
                Err(error) => match classify(&error) {
                    RetryDecision::Refused(why) => return Err(why),
                    RetryDecision::Again(after) => {
                        tracing::warn!(step = %self.step, %error, "the end of a step could not be reported");
                        backoff.pause(after).await;
                    }
                },
            }
        }
    }

    /// Reports the step as completed.
    pub(crate) async fn complete(&self, done: &Done) -> Result<(), String> {
        let mut body = json!({"generation": self.generation});
        put(&mut body, "message", done.message.as_deref().map(shortened));
        put(&mut body, "adapter_detail", detail(&done.detail));
        put(&mut body, "members", (!done.members.is_empty()).then_some(&done.members));
        put(&mut body, "topology_mode", done.topology_mode.as_ref());
        put(
            &mut body,
            "reconcile_after_seconds",
            done.reconcile_after.map(|after| after.as_secs().clamp(1, 86400)),
        );
        self.settle("complete", &body).await
    }

    /// Reports the step as failed, permanently or temporarily.
    pub(crate) async fn fail(&self, failure: Failure) -> Result<(), String> {
        let failure = failure.fitting();
        let mut body =
            json!({"generation": self.generation, "reason": failure.reason, "message": failure.message});
        put(&mut body, "retry_after_seconds", failure.retry_after.map(whole_seconds));
        put(&mut body, "adapter_detail", detail(&failure.detail));
        self.settle("fail", &body).await
    }
}

/// Rounds up, because zero would mean an immediate retry.
fn whole_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

/// Adds a field unless it is absent.
pub(crate) fn put(body: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let Some(value) = value {
        body[name] = json!(value);
    }
}
