//! How long the network is tried again before that is left to the server, which asks for the whole task again.

use muster_ids::World;

use crate::backoff::Backoff;
use crate::link::CallError;

/// So many failures one after the other, without anything that came in between, are enough: some twenty seconds.
const TRIES: u32 = 10;

pub(super) struct Persistence {
    backoff: Backoff,
    failures: u32,
}

impl Persistence {
    pub(super) fn new(world: &World) -> Self {
        Self { backoff: Backoff::new(world), failures: 0 }
    }

    /// Something came.
    pub(super) fn got_on(&mut self) {
        if self.failures > 0 {
            self.failures = 0;
            self.backoff.reset();
        }
    }

    /// Waits before the next attempt, or gives the error back if there is no point in one.
    pub(super) async fn pause_after(&mut self, error: CallError) -> Result<(), CallError> {
        self.failures += 1;
        if self.failures >= TRIES || !may_pass(&error) {
            return Err(error);
        }
        tracing::warn!(%error, "what a cell needs did not come; trying again");
        self.backoff.pause().await;
        Ok(())
    }
}

/// Whether another attempt may have another end.
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Unreachable(_) | CallError::Lost(_) => true,
        CallError::Refused { status, .. } => *status == 429 || *status >= 500,
        CallError::Strange(_) | CallError::TooLong => false,
    }
}

/// The server's own sentence where it has one.
pub(super) fn said(error: &CallError) -> String {
    match error {
        CallError::Refused { detail, .. } if !detail.is_empty() => detail.chars().take(500).collect(),
        error => error.to_string(),
    }
}
