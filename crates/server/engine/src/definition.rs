//! What an operation is made of: steps with undo, as data.

use futures::future::BoxFuture;
use jiff::Timestamp;
use muster_db::{Result, Store};
use muster_ids::World;
use muster_model::operation::{Operation, OperationState, StepState};

use crate::{Act, Releases, Timing};

/// What a step may use. It reads from the store; it writes only through the `Act` that it returns.
pub struct StepCx<'a> {
    /// The database, for reading.
    pub store: &'a Store,
    /// Time and randomness.
    pub world: &'a World,
    /// The manifests of releases.
    pub releases: &'a Releases,
    /// The limits of waits.
    pub timing: &'a Timing,
    /// The operation, with its journal.
    pub operation: &'a Operation,
    /// The step's name.
    pub step: &'static str,
    /// One instant for everything the step writes.
    pub now: Timestamp,
}

/// A step's function, or its undo's. It is called again and again until it says something final, by whichever replica holds
/// the lease, so it begins by looking at what is there.
pub type Run = for<'a> fn(&'a StepCx<'a>) -> BoxFuture<'a, Result<Act>>;

/// How a step is taken back.
#[derive(Clone, Copy)]
pub enum Undo {
    /// By this.
    Run(Run),
    /// Not at all, and why that is right.
    None(&'static str),
}

/// One step.
#[derive(Clone, Copy)]
pub struct Step {
    /// Its name; the file has the same.
    pub name: &'static str,
    /// What it does, for plans.
    pub does: &'static str,
    /// Whether it collects evidence: the operation is `verifying` meanwhile.
    pub verifies: bool,
    /// It.
    pub run: Run,
    /// Its undo.
    pub undo: Undo,
}

/// What happens when a step is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// What was done is undone.
    Undo,
    /// Somebody has to look.
    Park,
    /// Somebody has to look if it was for one of these reasons; otherwise what was done is undone.
    ParkFor(&'static [&'static str]),
}

impl OnFailure {
    /// Whether a step that was refused for this reason leads to an undoing.
    pub fn undoes(self, reason: &str) -> bool {
        match self {
            Self::Undo => true,
            Self::Park => false,
            Self::ParkFor(reasons) => !reasons.contains(&reason),
        }
    }

    /// Whether there is an undoing at all.
    pub fn can_undo(self) -> bool {
        self != Self::Park
    }
}

/// What happens when the deadline passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtDeadline {
    /// What was done is undone.
    Undo,
    /// Somebody has to look.
    Park,
    /// The step itself decides; it sees the time.
    Step,
}

/// What giving up means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandon {
    /// An operator's word stands in for the evidence; what could not be seen stays quarantined.
    Attest,
    /// What was done is undone.
    Undo,
    /// It cannot be given up, only retried or superseded.
    Never,
}

/// What is written in the transaction that ends an operation: the things it worked on are left in a final state.
pub type Settle = for<'a> fn(&'a StepCx<'a>, OperationState) -> BoxFuture<'a, Result<Act>>;

/// A kind of operation.
#[derive(Clone, Copy)]
pub struct Definition {
    /// `noun.verb`.
    pub kind: &'static str,
    /// The steps, in order.
    pub steps: &'static [Step],
    /// When a step is refused.
    pub on_failure: OnFailure,
    /// When the deadline passes.
    pub at_deadline: AtDeadline,
    /// Whether it can be cancelled on request.
    pub cancellable: bool,
    /// The step after which there is no way back: from then on it can only go on, or be parked.
    pub no_return: Option<&'static str>,
    /// What giving up means, once it is parked.
    pub abandon: Abandon,
    /// Who can unblock it when it is parked: `tenant` or `operator`.
    pub unblock_by: &'static str,
    /// What is left to write at its end.
    pub settle: Settle,
}

impl Definition {
    /// Whether `operation` has passed the step after which there is no way back.
    pub fn is_past_return(&self, operation: &Operation) -> bool {
        let passed = |step: &str| operation.step(step).is_some_and(|step| step.state == StepState::Done);
        self.no_return.is_some_and(passed)
    }

    /// The step of this name.
    pub fn step(&self, name: &str) -> Option<&'static Step> {
        self.steps.iter().find(|step| step.name == name)
    }
}

/// For operations that leave nothing to settle.
pub(crate) fn nothing_to_settle<'a>(_: &'a StepCx<'a>, _: OperationState) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async { Ok(Act::Say(crate::Verdict::done())) })
}
