//! A lease on one step: kept by heartbeats, and let go of at once when it is somebody else's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_sdk::types::{AdapterStep, AdapterStepHeartbeat};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::adapter::{Done, Failure, shortened};
use crate::backoff::{Backoff, Chance};
use crate::platform::{Platform, Then, detail, then};

/// Why a lease is not ours any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The platform says so: it changed hands, the step is over, or nobody wants it.
    Fenced(String),
    /// No heartbeat was heard in its time, so for all we know somebody else has it.
    Lapsed,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fenced(why) => f.write_str(why),
            Self::Lapsed => f.write_str("no heartbeat was heard in its time"),
        }
    }
}

/// What came of a heartbeat.
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
    /// When the last heartbeat was sent that was heard.
    kept_at: Mutex<Instant>,
    lost: watch::Sender<Option<Lost>>,
}

impl Lease {
    /// The lease under which this step was given.
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
        self.life().saturating_sub(self.kept_at.lock().expect("no holder of this lock can panic").elapsed())
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(&self.chance)
    }

    /// Keeps it, with a heartbeat in each third of its life, and returns only when it is lost.
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
                        // However long the pauses have become, whoever holds on is told when the time is over.
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

    /// Waits until somebody found that it is lost.
    async fn loss(&self) {
        // The sender is our own, so this ends with a loss and not with its end.
        let _ = self.lost.subscribe().wait_for(Option::is_some).await;
    }

    /// One heartbeat. A refusal, whatever its code, means that the step is not ours: nothing else can be wrong with it.
    async fn beat(&self) -> Beat {
        let sent_at = Instant::now();
        let heartbeat =
            AdapterStepHeartbeat { generation: self.generation, lease_seconds: Some(self.seconds) };
        let call = self.platform.say("heartbeat", &self.step, &heartbeat);
        // An answer that does not come must leave time for others.
        let patience = self.left().min(self.life() / 6).max(Duration::from_millis(100));
        match tokio::time::timeout(patience, call).await {
            Ok(Ok(_)) => {
                *self.kept_at.lock().expect("no holder of this lock can panic") = sent_at;
                Beat::Kept
            }
            Ok(Err(error)) => match then(&error) {
                Then::Refused(why) => {
                    self.lost.send_replace(Some(Lost::Fenced(why)));
                    Beat::Lost
                }
                Then::Again(_) => Beat::Unheard,
            },
            Err(_) => Beat::Unheard,
        }
    }

    /// Whether a refusal of something else came because the lease is lost. A heartbeat is the one question that says it
    /// without doubt; a code alone would not, because a task may be refused for reasons of its own. When it is lost this
    /// never returns: whoever carries the step out is dropped where it stands.
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

    /// Says something that must be heard: it is said again until it is, or until the lease is lost.
    async fn settle(&self, what: &str, body: &(impl Serialize + Sync)) -> Result<(), String> {
        let mut backoff = self.backoff();
        loop {
            match self.platform.say(what, &self.step, body).await {
                Ok(step) => {
                    for report in &step.refused_reports {
                        tracing::warn!(step = %self.step, member = %report.member_id, incarnation = report.incarnation,
                                       reason = %report.reason, "a report on a member was not taken");
                    }
                    return Ok(());
                }
                Err(error) => match then(&error) {
                    Then::Refused(why) => return Err(why),
                    Then::Again(after) => {
                        tracing::warn!(step = %self.step, %error, "the end of a step was not heard");
                        backoff.pause(after).await;
                    }
                },
            }
        }
    }

    /// Says that the step is done.
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

    /// Says that the step cannot be done, or not now.
    pub(crate) async fn fail(&self, failure: Failure) -> Result<(), String> {
        let failure = failure.fitting();
        let mut body =
            json!({"generation": self.generation, "reason": failure.reason, "message": failure.message});
        put(&mut body, "retry_after_seconds", failure.retry_after.map(whole_seconds));
        put(&mut body, "adapter_detail", detail(&failure.detail));
        self.settle("fail", &body).await
    }
}

/// Rounded up, because an answer of zero would mean "at once".
fn whole_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

/// Adds a field that has something to say.
pub(crate) fn put(body: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let Some(value) = value {
        body[name] = json!(value);
    }
}
