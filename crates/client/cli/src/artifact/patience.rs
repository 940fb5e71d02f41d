//! Retries temporary failures with growing delays, up to a limit of consecutive failures.

use std::time::Duration;

use super::progress::Bar;
use super::registry::Registry;
use super::trouble::Trouble;
use crate::failure::Result;

/// Maximum number of consecutive failures.
const MOST: u32 = 8;
/// First and longest delay.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Number of failures since the last success.
pub(super) struct Patience {
    troubles: u32,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { troubles: 0 }
    }

    /// Resets the count after a success.
    pub(super) fn renew(&mut self) {
        self.troubles = 0;
    }

    /// Counts a failure without a delay; returns false if the limit is exceeded.
    pub(super) fn count(&mut self) -> bool {
        self.troubles += 1;
        self.troubles <= MOST
    }

    /// Waits before a retry, or returns the failure if the limit is exceeded.
    pub(super) async fn bear(&mut self, registry: &Registry, trouble: Trouble, bar: &Bar) -> Result<()> {
        if !self.count() || !trouble.passes() {
            return Err(registry.failed(trouble));
        }
        let asked = match &trouble {
            Trouble::Refused(refusal) => refusal.retry_after.map(Duration::from_secs),
            Trouble::Network(_) => None,
        };
        let pause = (PAUSES.0 * 2_u32.pow(self.troubles - 1)).max(asked.unwrap_or_default()).min(PAUSES.1);
        bar.remark(match trouble {
            Trouble::Network(_) => "the connection broke; retrying",
            Trouble::Refused(_) => "the registry is busy; retrying",
        });
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
