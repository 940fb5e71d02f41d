//! Callbacks of the engine after a commit.

use std::sync::Arc;

use muster_ids::{NodeId, OperationId, ServiceAccountId};
use muster_model::operation::{OperationKind, OperationState};

/// Receives an operation, its kind and its final state.
pub type Ended = Arc<dyn Fn(OperationId, OperationKind, OperationState) + Send + Sync>;

/// Callbacks of the engine after a commit. Only hints: the database holds everything.
#[derive(Clone)]
pub struct Hooks {
    /// The outbox has new entries.
    pub outbox: Arc<dyn Fn() + Send + Sync>,
    /// A node has a new task.
    pub task_for: Arc<dyn Fn(NodeId) + Send + Sync>,
    /// An adapter of this account has a new step.
    pub step_for: Arc<dyn Fn(ServiceAccountId) + Send + Sync>,
    /// A write was refused because the lease had changed hands.
    pub fenced: Arc<dyn Fn() + Send + Sync>,
    /// An operation of this kind ended in this state.
    pub ended: Ended,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            outbox: Arc::new(|| {}),
            task_for: Arc::new(|_| {}),
            step_for: Arc::new(|_| {}),
            fenced: Arc::new(|| {}),
            ended: Arc::new(|_, _, _| {}),
        }
    }
}
