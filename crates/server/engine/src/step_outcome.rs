//! Outcomes of a step: a closed set.

use futures::future::BoxFuture;
use jiff::Timestamp;
use muster_db::{Result, StoreError, Tx};
use muster_ids::{NodeId, ServiceAccountId, WitnessId};
use muster_model::event::EventType;
use muster_model::operation::{Item, Operation};
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use crate::definition::Step;

/// Reason of a refusal that ends its operation as `partial`: the rest is on an unreachable node, and an operation of the
/// platform finishes it when the node returns or an operator attests.
pub(crate) const QUARANTINED: &str = "quarantined";

/// Outcome of a step.
#[derive(Debug, Clone)]
pub enum StepOutcome {
    /// The step is done.
    Done {
        /// Record of its effects, for its undo and for a superseding operation.
        output: Value,
        /// Message for users.
        message: Option<String>,
        /// Its evidence.
        witness: Option<WitnessId>,
    },
    /// The step continues later.
    Wait {
        /// Why it waits, for users.
        reason: String,
        /// When the engine runs it again unless it is woken earlier.
        until: Timestamp,
    },
    /// The effect certainly did not happen, and will not.
    Refused {
        /// Reason code from a closed list.
        reason: &'static str,
        /// Message for users.
        message: String,
    },
    /// The effect may have happened: it is read back before any further attempt.
    Unknown {
        /// The unknown fact.
        message: String,
        /// When to read back.
        until: Timestamp,
    },
}

impl StepOutcome {
    /// Done, without a message.
    pub fn done() -> Self {
        StepOutcome::Done { output: Value::Null, message: None, witness: None }
    }

    /// Done, with a record of its effects.
    pub fn with(output: impl Serialize) -> Self {
        StepOutcome::Done { output: to_json(&output), message: None, witness: None }
    }

    /// Done, with a message.
    pub fn with_message(message: impl Into<String>) -> Self {
        StepOutcome::Done { output: Value::Null, message: Some(message.into()), witness: None }
    }

    /// Returns the same outcome, with this message if it is done.
    pub(crate) fn and_message(self, message: Option<String>) -> Self {
        match self {
            StepOutcome::Done { output, witness, .. } => StepOutcome::Done { output, message, witness },
            other => other,
        }
    }

    /// Returns the same outcome, due when `other` is due if that is sooner.
    fn or_sooner(self, other: Self) -> Self {
        let (StepOutcome::Wait { until: sooner, .. } | StepOutcome::Unknown { until: sooner, .. }) = other
        else {
            return self;
        };
        match self {
            StepOutcome::Wait { reason, until } => StepOutcome::Wait { reason, until: until.min(sooner) },
            StepOutcome::Unknown { message, until } => {
                StepOutcome::Unknown { message, until: until.min(sooner) }
            }
            ended => ended,
        }
    }

    /// Done, with evidence.
    pub fn witnessed(witness: WitnessId, output: impl Serialize) -> Self {
        StepOutcome::Done { output: to_json(&output), message: None, witness: Some(witness) }
    }
}

/// Returns what this step of an operation recorded, in its own type, or none if it recorded nothing.
pub(crate) fn recorded<T: DeserializeOwned>(operation: &Operation, step: &Step) -> Result<Option<T>> {
    operation.step(step.name).map_or(Ok(None), |step| parsed(&step.output))
}

/// Parses an output; null is none.
pub(crate) fn parsed<T: DeserializeOwned>(output: &Value) -> Result<Option<T>> {
    Option::deserialize(output).map_err(|_| StoreError::Corrupt("an output of a step"))
}

fn to_json(output: &impl Serialize) -> Value {
    serde_json::to_value(output).expect("an output is JSON")
}

/// Side effects of a step's statements besides its outcome.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Events: type, path of the subject, data.
    pub events: Vec<(EventType, String, Value)>,
    /// Nodes with a new task or new desired state.
    pub tasks_for: Vec<NodeId>,
    /// Accounts with a new adapter step.
    pub steps_for: Vec<ServiceAccountId>,
    /// Current items of a bulk operation.
    pub items: Option<Vec<Item>>,
}

/// Statements of a step. They run in the transaction that also writes the journal.
pub type Statements =
    Box<dyn for<'t> FnOnce(&'t mut Tx, &'t mut Effects) -> BoxFuture<'t, Result<StepOutcome>> + Send>;

/// Action of a step: return an outcome, or run statements.
pub enum StepAction {
    /// An outcome that needs no statement.
    Return(StepOutcome),
    /// Statements that return the outcome.
    Commit(Statements),
}

impl StepAction {
    /// Statements that return the outcome.
    pub fn commit<W>(write: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx, &'t mut Effects) -> BoxFuture<'t, Result<StepOutcome>> + Send + 'static,
    {
        StepAction::Commit(Box::new(write))
    }

    /// Combines several waiting actions into one transaction: the first outcome counts for all, due when the soonest is.
    /// `None` if there are none.
    pub(crate) fn combine(acts: Vec<StepAction>) -> Option<Self> {
        acts.into_iter().reduce(|first, next| match (first, next) {
            (StepAction::Return(first), StepAction::Return(next)) => {
                StepAction::Return(first.or_sooner(next))
            }
            (first, next) => StepAction::commit(move |tx, effects| {
                Box::pin(async move {
                    let first = first.run_in(tx, effects).await?;
                    Ok(first.or_sooner(next.run_in(tx, effects).await?))
                })
            }),
        })
    }

    async fn run_in(self, tx: &mut Tx, effects: &mut Effects) -> Result<StepOutcome> {
        match self {
            StepAction::Return(outcome) => Ok(outcome),
            StepAction::Commit(write) => write(tx, effects).await,
        }
    }
}

impl From<StepOutcome> for StepAction {
    fn from(outcome: StepOutcome) -> Self {
        StepAction::Return(outcome)
    }
}
