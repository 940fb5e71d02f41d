//! Crash points: named moments of an order. The agent passes them by; a test sets a hook that ends the process at one.

use std::fmt;
use std::sync::Arc;

use muster_wire::task::TaskKind;

/// Crash points of an image pull, with either driver.
pub const PULL_POINTS: &[&str] = &["pull:downloaded", "pull:renamed"];

/// Callback for each crash point; none by default.
#[derive(Clone, Default)]
pub struct CrashHook(Option<Arc<Hook>>);

type Hook = dyn Fn(&str) + Send + Sync;

impl CrashHook {
    /// Returns a hook that calls the function with the name of each point.
    pub fn new(reached: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(reached)))
    }

    pub(crate) fn reach(&self, point: &str) {
        if let Some(reached) = &self.0 {
            reached(point);
        }
    }

    /// Like `reach`, for a stage of a task.
    pub(crate) fn reach_stage(&self, kind: TaskKind, stage: &str) {
        if let Some(reached) = &self.0 {
            reached(&format!("{}:{stage}", kind.as_str()));
        }
    }
}

impl fmt::Debug for CrashHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CrashHook").field(&self.0.is_some()).finish()
    }
}
