//! The trait that an adapter implements: one method per verb.

use std::future::Future;
use std::time::Duration;

use muster_sdk::types::{AdapterVerb, MemberReport};
use serde_json::{Map, Value};

use crate::StepCx;

/// Outcome of a step.
pub type Outcome = Result<Done, Failure>;

/// Implements an app class. Every method must be idempotent from its beginning: the process may die at any point, and the
/// step then runs again under another lease.
///
/// Returning [`Done`] is a claim, which the platform verifies itself.
pub trait Adapter: Send + Sync + 'static {
    /// Name of the adapter, for people; sent with every lease request.
    fn name(&self) -> &str;

    /// Version of the adapter.
    fn version(&self) -> &str;

    /// Adds a member to the app.
    fn join(&self, cx: &StepCx) -> impl Future<Output = Outcome> + Send;

    /// Forgets a member that is being removed. Its cell may already be gone, and its node unreachable.
    fn remove(&self, cx: &StepCx) -> impl Future<Output = Outcome> + Send;

    /// Undoes a join, also one that never finished; by default the same as a removal.
    fn leave(&self, cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        self.remove(cx)
    }

    /// Drains a member, and waits until it has no work left.
    fn drain(&self, _cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        async { Err(Failure::unsupported(AdapterVerb::Drain)) }
    }

    /// Returns a drained member to service.
    fn resume(&self, _cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        async { Err(Failure::unsupported(AdapterVerb::Resume)) }
    }

    /// Inspects an instance, repairs what the adapter is responsible for, and reports member health. Without reports,
    /// health stays as it is.
    fn reconcile(&self, _cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        async { Ok(Done::default()) }
    }
}

/// Successful outcome of a step, as claimed by the adapter.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// Summary, for people.
    pub message: Option<String>,
    /// Detail on the member; replaces the previous one.
    pub detail: Map<String, Value>,
    /// Member reports, after a reconciliation.
    pub members: Vec<MemberReport>,
    /// The adapter's name for the topology.
    pub topology_mode: Option<String>,
    /// Time until the next reconciliation; default: the manifest's interval.
    pub reconcile_after: Option<Duration>,
}

impl Done {
    /// Returns an outcome with a message.
    pub fn saying(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }
}

/// Failure reason for a dead cell.
pub(crate) const CELL_DEAD: &str = "cell_dead";
/// Failure reason for a change that the platform refused to a reconciliation because of a member's step.
pub(crate) const MEMBER_STEP_RUNNING: &str = "member_step_running";

/// Failure of a step, permanent or temporary.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Failure reason, defined by the adapter, in snake case.
    pub reason: String,
    /// Human-readable message with the next step to take.
    pub message: String,
    /// Delay before a retry: the step is offered again instead of failing.
    pub retry_after: Option<Duration>,
    /// Detail on the member; replaces the previous one.
    pub detail: Map<String, Value>,
}

impl Failure {
    /// Returns a permanent failure.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), retry_after: None, detail: Map::new() }
    }

    /// Returns a temporary failure.
    pub fn retry(after: Duration, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { retry_after: Some(after), ..Self::new(reason, message) }
    }

    /// Reports whether a task failed because its cell is dead. No task can succeed in it any more: a removal skips it,
    /// and every other verb fails with this.
    pub fn is_cell_dead(&self) -> bool {
        self.reason == CELL_DEAD
    }

    /// Reports whether the platform refused a reconciliation's change because of a member's step; the next reconciliation
    /// can repair it.
    pub fn is_member_step_running(&self) -> bool {
        self.reason == MEMBER_STEP_RUNNING
    }

    /// Returns the failure for a verb this adapter does not implement.
    pub fn unsupported(verb: AdapterVerb) -> Self {
        Self::new(
            "unsupported",
            format!("this adapter does not support {verb}; its manifest should not list it"),
        )
    }

    /// Returns the failure within the platform's limits: an invalid reason, an overlong text or an excessive delay would
    /// get the whole report refused.
    pub(crate) fn fitting(mut self) -> Self {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let mut word: String = self.reason.chars().map(|c| if fits(c) { c } else { '_' }).take(63).collect();
        if !word.starts_with(|c: char| c.is_ascii_lowercase()) {
            word = format!("failed_{word}").chars().take(63).collect();
        }
        self.reason = word;
        self.retry_after = self.retry_after.map(|after| after.min(LATEST));
        self.message = shortened(&self.message);
        if self.message.is_empty() {
            self.message = format!("the adapter gave no other reason than {}", self.reason);
        }
        self
    }
}

/// Maximum retry delay that the platform accepts.
const LATEST: Duration = Duration::from_secs(86_400);

/// Truncates a message to the platform's limit.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 1000;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST - 1).chain(std::iter::once('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_always_fits_what_the_platform_takes() {
        let failure = Failure::new("No License!", "").fitting();
        assert_eq!(failure.reason, "failed__o__icense_");
        assert!(failure.message.contains(&failure.reason));
        let failure = Failure::new("9".repeat(100), "é".repeat(3000)).fitting();
        assert_eq!(failure.reason.len(), 63);
        assert!(failure.reason.starts_with("failed_9"));
        assert_eq!(failure.message.chars().count(), 1000);
        let failure = Failure::retry(Duration::MAX, "later", "Much later.").fitting();
        assert_eq!(failure.retry_after, Some(Duration::from_secs(86_400)));
        let fine = Failure::new("no_license", "Buy one.");
        assert_eq!(fine.clone().fitting(), fine);
    }
}
