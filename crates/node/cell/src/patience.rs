//! How long a caller waits for slow work.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::{CellError, CellResult};

/// Timeout and cancellation of a caller.
pub struct Patience<'a> {
    /// Timeout, from now on.
    pub within: Duration,
    /// Clock.
    pub now: &'a (dyn Fn() -> Timestamp + Sync),
    /// Reports whether the agent is stopping and waits no longer. Started work continues, and the next agent finds it.
    pub given_up: &'a (dyn Fn() -> bool + Sync),
}

impl Patience<'_> {
    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.within
    }

    pub(crate) fn check(&self) -> CellResult<()> {
        if (self.given_up)() { Err(CellError::GivenUp) } else { Ok(()) }
    }
}
