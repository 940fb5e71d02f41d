//! Permission of a streaming answer, revalidated while it lasts: the answer ends within five seconds of losing it.

use std::time::{Duration, Instant};

use muster_authz::Permission;
use muster_model::Scope;

use crate::{Cx, Result};

/// Interval of revalidation, within the five-second limit for revocation.
pub(crate) const CHECK: Duration = Duration::from_secs(2);

/// The context of a streaming answer, with its permission.
pub(crate) struct Revalidated {
    pub(crate) cx: Cx,
    permission: Permission,
    scope: Scope,
    checked: Instant,
}

impl Revalidated {
    /// Creates one for an answer that was just authorized.
    pub(crate) fn new(cx: &Cx, permission: Permission, scope: Scope) -> Self {
        Self { cx: cx.clone(), permission, scope, checked: Instant::now() }
    }

    /// Returns the time until the next check is due.
    pub(crate) fn due_in(&self) -> Duration {
        CHECK.saturating_sub(self.checked.elapsed())
    }

    /// Validates the credential and its permission again, if that is due.
    pub(crate) async fn check(&mut self) -> Result<()> {
        if !self.due_in().is_zero() {
            return Ok(());
        }
        self.checked = Instant::now();
        self.cx = self.cx.again().await?;
        self.cx.authorize(self.permission, self.scope, "stream")
    }
}
