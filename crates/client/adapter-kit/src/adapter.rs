//! What an author of an adapter writes: one method for each thing that the platform asks for.

use std::future::Future;
use std::time::Duration;

use muster_sdk::types::{AdapterVerb, MemberReport};
use serde_json::{Map, Value};

use crate::StepCx;

/// How a step ended.
pub type Outcome = Result<Done, Failure>;

/// Gives an app class its meaning. Every method must be safe to run again from its beginning: the process may die between
/// any two lines of it, and then somebody runs it again under another lease.
///
/// Returning [`Done`] is a claim, and the platform looks for itself before it believes it.
pub trait Adapter: Send + Sync + 'static {
    /// The adapter's name, for people: what it calls itself when it asks for work.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// Takes a member in.
    fn join(&self, cx: &StepCx) -> impl Future<Output = Outcome> + Send;

    /// Forgets a member, which goes. Its cell may be gone already, and its node unreachable.
    fn remove(&self, cx: &StepCx) -> impl Future<Output = Outcome> + Send;

    /// Undoes a join, also one that was never finished; as a rule that is what a removal does.
    fn leave(&self, cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        self.remove(cx)
    }

    /// Takes a member out of work, and waits until no work is on it.
    fn drain(&self, _cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        async { Err(Failure::unsupported(AdapterVerb::Drain)) }
    }

    /// Puts a drained member back to work.
    fn resume(&self, _cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        async { Err(Failure::unsupported(AdapterVerb::Resume)) }
    }

    /// Looks at an instance, mends what is the adapter's to mend, and says how its members do. One that says nothing leaves
    /// health as it is.
    fn reconcile(&self, _cx: &StepCx) -> impl Future<Output = Outcome> + Send {
        async { Ok(Done::default()) }
    }
}

/// A step is done, as far as the adapter can tell.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// What was done, for people.
    pub message: Option<String>,
    /// What there is to say of the member; it replaces what was said before.
    pub detail: Map<String, Value>,
    /// How the members do, after a look at the instance.
    pub members: Vec<MemberReport>,
    /// How the adapter calls the topology.
    pub topology_mode: Option<String>,
    /// When it wants to look again; as the manifest says, if not given.
    pub reconcile_after: Option<Duration>,
}

impl Done {
    /// With a sentence for people.
    pub fn saying(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }
}

/// The reason of a failure in a cell that is dead.
pub(crate) const CELL_DEAD: &str = "cell_dead";
/// The reason of a failure that is the platform's refusal to have a look change something beside a step of a member.
pub(crate) const MEMBER_STEP_RUNNING: &str = "member_step_running";

/// A step cannot be done, or not now.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Why: a word of the adapter's own, in snake case.
    pub reason: String,
    /// The same in a sentence that says what to do next.
    pub message: String,
    /// When it may work: then the step is offered again after that, instead of failing.
    pub retry_after: Option<Duration>,
    /// What there is to say of the member; it replaces what was said before.
    pub detail: Map<String, Value>,
}

impl Failure {
    /// It cannot be done at all.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), retry_after: None, detail: Map::new() }
    }

    /// It may work later.
    pub fn retry(after: Duration, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { retry_after: Some(after), ..Self::new(reason, message) }
    }

    /// Whether a task could not be done because the cell it was for is dead. Nothing can be done in it any more: a removal leaves it out, and
    /// everything else fails with this.
    pub fn is_cell_dead(&self) -> bool {
        self.reason == CELL_DEAD
    }

    /// Whether the platform refused a change of a look because of a step of a member: repair at the next look.
    pub fn is_member_step_running(&self) -> bool {
        self.reason == MEMBER_STEP_RUNNING
    }

    /// This adapter does not do that.
    pub fn unsupported(verb: AdapterVerb) -> Self {
        Self::new(
            "unsupported",
            format!("this adapter does not know how to {verb} a member; its manifest should not list it"),
        )
    }

    /// As the platform takes it: a reason that is no word of its form would have the whole report refused, and so would an endless
    /// text and an endless wait.
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

/// The platform waits no longer before it offers a step again.
const LATEST: Duration = Duration::from_secs(86_400);

/// At most as much as the platform takes of a sentence.
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
