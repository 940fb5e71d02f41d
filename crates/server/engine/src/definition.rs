//! Definition of an operation: steps with undo, as data.

use futures::future::BoxFuture;
use jiff::Timestamp;
use muster_db::{Result, Store};
use muster_ids::Env;
use muster_model::operation::{Operation, OperationKind, OperationState, StepState};

use crate::{Releases, StepAction, Timing};

/// Context of a step. It reads from the store; it writes only through the `StepAction` that it returns.
pub struct StepCx<'a> {
    /// The database, for reading.
    pub store: &'a Store,
    /// Time and randomness.
    pub env: &'a Env,
    /// Manifests of releases.
    pub releases: &'a Releases,
    /// Time limits.
    pub timing: &'a Timing,
    /// The operation, with its journal.
    pub operation: &'a Operation,
    /// Name of the step.
    pub step: &'static str,
    /// One instant for all writes of the step.
    pub now: Timestamp,
}

/// Function of a step or of its undo. It is called repeatedly until its outcome is final, by whichever replica holds the
/// lease, so it starts by reading the current state.
pub type Run = for<'a> fn(&'a StepCx<'a>) -> BoxFuture<'a, Result<StepAction>>;

/// How a step is undone.
#[derive(Clone, Copy)]
pub enum Undo {
    /// By this function.
    Run(Run),
    /// Not at all, and why that is correct.
    None(&'static str),
}

/// A step.
#[derive(Clone, Copy)]
pub struct Step {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// Description for plans.
    pub does: &'static str,
    /// Whether it collects evidence: the operation is `verifying` meanwhile.
    pub verifies: bool,
    /// The function that runs it.
    pub run: Run,
    /// Its undo.
    pub undo: Undo,
}

/// Reaction to a refused step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Roll back.
    Undo,
    /// Block until an operator or the tenant decides.
    Block,
    /// Block for one of these reasons; otherwise roll back.
    BlockFor(&'static [&'static str]),
}

impl OnFailure {
    /// Reports whether a step refused for this reason is rolled back.
    pub fn undoes(self, reason: &str) -> bool {
        match self {
            Self::Undo => true,
            Self::Block => false,
            Self::BlockFor(reasons) => !reasons.contains(&reason),
        }
    }

    /// Reports whether any reason leads to a rollback.
    pub fn can_undo(self) -> bool {
        self != Self::Block
    }
}

/// Reaction to a passed deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtDeadline {
    /// Roll back.
    Undo,
    /// Block until an operator or the tenant decides.
    Block,
    /// The step decides; it has the current time.
    Step,
}

/// Meaning of abandoning a blocked operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandon {
    /// An operator's attestation replaces the evidence; unverified resources stay quarantined.
    Attest,
    /// Roll back.
    Undo,
    /// It cannot be abandoned, only retried or superseded.
    Never,
}

/// Statements of the transaction that ends an operation: they leave its subjects in a final state.
pub type Settle = for<'a> fn(&'a StepCx<'a>, OperationState) -> BoxFuture<'a, Result<StepAction>>;

/// A kind of operation.
#[derive(Clone, Copy)]
pub struct Definition {
    /// `noun.verb`.
    pub kind: OperationKind,
    /// The steps, in order.
    pub steps: &'static [Step],
    /// Reaction to a refused step.
    pub on_failure: OnFailure,
    /// Reaction to a passed deadline.
    pub at_deadline: AtDeadline,
    /// Whether it can be cancelled on request.
    pub cancellable: bool,
    /// The step of no return: once it is done, the operation can only continue or be blocked.
    pub no_return: Option<&'static str>,
    /// Meaning of abandoning it while it is blocked.
    pub abandon: Abandon,
    /// Role that can unblock it: `tenant` or `operator`.
    pub resolvable_by: &'static str,
    /// Statements at its end.
    pub settle: Settle,
}

impl Definition {
    /// Reports whether `operation` has passed the step of no return.
    pub fn is_past_return(&self, operation: &Operation) -> bool {
        let passed = |step: &str| operation.step(step).is_some_and(|step| step.state == StepState::Done);
        self.no_return.is_some_and(passed)
    }

    /// Returns the step of this name.
    pub fn step(&self, name: &str) -> Option<&'static Step> {
        self.steps.iter().find(|step| step.name == name)
    }
}

/// Settles operations that leave nothing to write.
pub(crate) fn nothing_to_settle<'a>(
    _: &'a StepCx<'a>,
    _: OperationState,
) -> BoxFuture<'a, Result<StepAction>> {
    Box::pin(async { Ok(StepAction::Return(crate::StepOutcome::done())) })
}
