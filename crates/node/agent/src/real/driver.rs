//! The real driver as the agent uses it: slow functions run on a blocking thread.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use muster_cell::CellStatus;
use muster_ids::{CellId, Env};
use muster_image::{Digest, ImageHold, ImageReservation};
use muster_wire::cell::{CellRef, DesiredState};
use muster_wire::task::{SandboxRef, TaskKind};

use super::Driver;
use super::inside::Shared;
use crate::AgentError;
use crate::driver::{ImageOwner, Order, Outcome, Supply, Undone};
use crate::stream::Inside;

/// Supervision interval.
const LOOK: Duration = Duration::from_millis(250);

/// Runs a function of the driver on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AgentError> + Send + 'static,
) -> Result<T, AgentError> {
    let work = tokio::task::spawn_blocking(work);
    work.await.map_err(|error| AgentError::Refused(format!("the driver failed: {error}")))?
}

impl crate::Driver for Driver {
    fn sandboxes(&self) -> Result<Vec<SandboxRef>, AgentError> {
        self.sandboxes()
    }

    fn folders(&self) -> Vec<PathBuf> {
        self.folders()
    }

    fn cells(&self) -> Result<Vec<CellRef>, AgentError> {
        self.cells()
    }

    fn observe(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<CellStatus>, AgentError>> {
        Box::pin(blocking(move || Self::observe(&self)))
    }

    fn stop_self_fenced(&self) -> Result<Vec<(CellRef, u32)>, AgentError> {
        self.stop_self_fenced()
    }

    fn kill_cell(&self, cell: &CellRef) {
        self.kill_cell(cell);
    }

    fn boot_id(&self) -> String {
        crate::self_fencing::boot()
    }

    fn runs(&self, cell: CellId, incarnation: i64) -> Result<bool, AgentError> {
        self.runs(cell, incarnation)
    }

    fn supply(&self, digest: &Digest) -> Result<Supply, AgentError> {
        self.supply(digest)
    }

    fn hold_image(&self, digest: &Digest) -> Option<ImageHold> {
        Some(self.hold_image(digest))
    }

    fn reserve_image(
        self: Arc<Self>,
        digest: Digest,
        bytes: u64,
        owner: ImageOwner,
    ) -> BoxFuture<'static, Result<Option<ImageReservation>, Undone>> {
        Box::pin(async move {
            let work = move || Self::reserve_image(&self, &digest, bytes, owner);
            let reserved = tokio::task::spawn_blocking(work).await;
            reserved.unwrap_or_else(|error| Err(format!("the driver failed: {error}").into()))
        })
    }

    fn evict_for(self: Arc<Self>, bytes: u64) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(error) = tokio::task::spawn_blocking(move || Self::evict_for(&self, bytes)).await {
                tracing::warn!(%error, "unused images could not be evicted");
            }
        })
    }

    fn reach_point(&self, point: &'static str) {
        self.settings.crash.reach(point);
    }

    fn carry_out(self: Arc<Self>, order: Order) -> BoxFuture<'static, Outcome> {
        Box::pin(blocking(move || Self::carry_out(&self, &order)))
    }

    fn before_report(&self, kind: TaskKind) {
        self.reach(kind, "reporting");
    }

    fn reconcile(self: Arc<Self>, desired: DesiredState) -> BoxFuture<'static, Result<i64, AgentError>> {
        Box::pin(blocking(move || Self::reconcile(&self, &desired).map(|()| desired.revision)))
    }

    fn address(&self) -> Option<String> {
        Some(self.settings.address.to_string())
    }

    fn shared_files(&self) -> Option<String> {
        self.shared_files()
    }

    fn checked_at_once(&self) -> usize {
        self.settings.checks.allocations_at_once()
    }

    fn inside(self: Arc<Self>) -> Arc<dyn Inside> {
        Arc::new(Shared(self))
    }

    fn leave(&self, left: bool) {
        self.left.store(left, Ordering::Relaxed);
    }

    fn supervise(self: Arc<Self>, env: Env) -> BoxFuture<'static, Infallible> {
        Box::pin(async move {
            loop {
                let (driver, now) = (self.clone(), env.now());
                if let Err(error) = tokio::task::spawn_blocking(move || Self::supervise(&driver, now)).await {
                    tracing::error!(%error, "supervision failed; retrying");
                }
                tokio::time::sleep(LOOK).await;
            }
        })
    }
}
