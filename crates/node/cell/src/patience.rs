//! For how long somebody waits for what takes its time.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::error::{CellError, CellResult};

/// For how long somebody waits, and how they can be asked.
pub struct Patience<'a> {
    /// So long, from now on.
    pub within: Duration,
    /// Says what time it is.
    pub now: &'a (dyn Fn() -> Timestamp + Sync),
    /// Whether the agent ends, and waits for nothing any more. What it began goes on, and is found again by the next one.
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
