//! What a step answers with: a closed set.

use futures::future::BoxFuture;
use jiff::Timestamp;
use muster_db::{StoreError, Tx};
use muster_ids::{NodeId, ServiceAccountId, WitnessId};
use muster_model::event::EventType;
use muster_model::operation::Item;
use serde_json::Value;

/// What a step came to.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It is done.
    Done {
        /// What it did, for its undo and for whoever takes over.
        output: Value,
        /// What it says.
        message: Option<String>,
        /// The evidence.
        witness: Option<WitnessId>,
    },
    /// It goes on later.
    Wait {
        /// Why, in words for people.
        reason: String,
        /// When the engine looks again, if nobody wakes it before.
        until: Timestamp,
    },
    /// It surely did not happen, and will not.
    Refused {
        /// A word of a closed list.
        reason: &'static str,
        /// The same in a sentence.
        message: String,
    },
    /// It perhaps happened: it is read back before anything else is tried.
    Unknown {
        /// What is not known.
        message: String,
        /// When to read back.
        until: Timestamp,
    },
}

impl Verdict {
    /// Done, with nothing to say.
    pub fn done() -> Self {
        Verdict::Done { output: Value::Null, message: None, witness: None }
    }

    /// Done, with a record for the undo.
    pub fn with(output: Value) -> Self {
        Verdict::Done { output, message: None, witness: None }
    }

    /// Done, with a sentence.
    pub fn said(message: impl Into<String>) -> Self {
        Verdict::Done { output: Value::Null, message: Some(message.into()), witness: None }
    }

    /// The same, looked at again when `other` is due if that is sooner.
    fn or_sooner(self, other: Self) -> Self {
        let (Verdict::Wait { until: sooner, .. } | Verdict::Unknown { until: sooner, .. }) = other else {
            return self;
        };
        match self {
            Verdict::Wait { reason, until } => Verdict::Wait { reason, until: until.min(sooner) },
            Verdict::Unknown { message, until } => Verdict::Unknown { message, until: until.min(sooner) },
            ended => ended,
        }
    }

    /// Done, with evidence.
    pub fn witnessed(witness: WitnessId, output: Value) -> Self {
        Verdict::Done { output, message: None, witness: Some(witness) }
    }
}

/// What a step's statements tell beside their verdict.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Events: type, path of the thing, data.
    pub events: Vec<(EventType, String, Value)>,
    /// Nodes that have a new task, or something new to follow.
    pub tasks_for: Vec<NodeId>,
    /// Accounts for whose adapters a step waits.
    pub steps_for: Vec<ServiceAccountId>,
    /// The parts of a bulk operation, as they are now.
    pub items: Option<Vec<Item>>,
}

/// The statements of a step. They run in the transaction that also writes the journal.
pub type Write =
    Box<dyn for<'t> FnOnce(&'t mut Tx, &'t mut Told) -> BoxFuture<'t, Result<Verdict, StoreError>> + Send>;

/// What a step wants: nothing more than to say something, or to write.
pub enum Act {
    /// A verdict that needs no statement.
    Say(Verdict),
    /// Statements, which give the verdict.
    Write(Write),
}

impl Act {
    /// Statements, which give the verdict.
    pub fn write<W>(write: W) -> Self
    where
        W: for<'t> FnOnce(&'t mut Tx, &'t mut Told) -> BoxFuture<'t, Result<Verdict, StoreError>>
            + Send
            + 'static,
    {
        Act::Write(Box::new(write))
    }

    /// Several that wait, in one transaction: the first speaks for all of them, and it is looked again when the soonest is due.
    /// Nothing where there are none.
    pub(crate) fn together(acts: Vec<Act>) -> Option<Self> {
        acts.into_iter().reduce(|first, next| match (first, next) {
            (Act::Say(first), Act::Say(next)) => Act::Say(first.or_sooner(next)),
            (first, next) => Act::write(move |tx, told| {
                Box::pin(async move {
                    let first = first.done_in(tx, told).await?;
                    Ok(first.or_sooner(next.done_in(tx, told).await?))
                })
            }),
        })
    }

    async fn done_in(self, tx: &mut Tx, told: &mut Told) -> Result<Verdict, StoreError> {
        match self {
            Act::Say(verdict) => Ok(verdict),
            Act::Write(write) => write(tx, told).await,
        }
    }
}

impl From<Verdict> for Act {
    fn from(verdict: Verdict) -> Self {
        Act::Say(verdict)
    }
}
