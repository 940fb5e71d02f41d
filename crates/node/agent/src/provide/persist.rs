//! Bounds the retries of network requests before the task fails and the server retries it as a whole.

use muster_ids::Env;

use crate::backoff::Backoff;
use crate::link::CallError;

/// Maximum consecutive failures without progress: some twenty seconds.
const TRIES: u32 = 10;

pub(super) struct Persistence {
    backoff: Backoff,
    failures: u32,
}

impl Persistence {
    pub(super) fn new(env: &Env) -> Self {
        Self { backoff: Backoff::new(env), failures: 0 }
    }

    /// Records progress.
    pub(super) fn got_on(&mut self) {
        if self.failures > 0 {
            self.failures = 0;
            self.backoff.reset();
        }
    }

    /// Waits before the next attempt, or returns the error if a retry is pointless.
    pub(super) async fn pause_after(&mut self, error: CallError) -> Result<(), CallError> {
        self.failures += 1;
        if self.failures >= TRIES || !may_pass(&error) {
            return Err(error);
        }
        tracing::warn!(%error, "content that a cell needs did not arrive; retrying");
        self.backoff.pause().await;
        Ok(())
    }
}

/// Reports whether a retry may succeed.
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Unreachable(_) | CallError::Lost(_) => true,
        CallError::Refused { status, .. } => *status == 429 || *status >= 500,
        CallError::Strange(_) | CallError::TooLong => false,
    }
}

/// Returns the server's own message if there is one.
pub(super) fn said(error: &CallError) -> String {
    match error {
        CallError::Refused { detail, .. } if !detail.is_empty() => detail.chars().take(500).collect(),
        error => error.to_string(),
    }
}
