//! What fails for a moment is tried again, with longer and longer pauses, until it fails too often in a row.

use std::time::Duration;

use super::progress::Bar;
use super::registry::Registry;
use super::trouble::Trouble;
use crate::failure::Result;

/// How often in a row something may fail before whoever waits is told.
const MOST: u32 = 8;
/// The pause after the first trouble, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// How much was borne since something last succeeded.
pub(super) struct Patience {
    troubles: u32,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { troubles: 0 }
    }

    /// Something succeeded.
    pub(super) fn renew(&mut self) {
        self.troubles = 0;
    }

    /// Counts a trouble that needs no pause; false if it is one too many.
    pub(super) fn count(&mut self) -> bool {
        self.troubles += 1;
        self.troubles <= MOST
    }

    /// Waits, or says that it was enough.
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
            Trouble::Network(_) => "the connection broke; trying again",
            Trouble::Refused(_) => "the registry is busy; trying again",
        });
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
