//! The single SQLite writer, with group commit.
//!
//! SQLite allows one writer at a time and costs one flush per commit. If other callers are already waiting, a finished
//! transaction does not commit immediately: it hands the open transaction to the next caller, and the last one without a
//! successor commits for all. Each caller gets its result only after that commit, so an acknowledged write is still durable;
//! sixteen callers then share a flush instead of queueing for sixteen. A savepoint isolates the failure of each member.
//!
//! A caller can be cancelled at any await, for example when its client disconnects. The code that opens or ends a
//! transaction then continues on its own ([`Unbroken`]): a BEGIN or COMMIT that was sent but not recorded would leave the
//! writer out of step with SQLite.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Executor as _};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use crate::StoreError;
use crate::error::is_full;

/// Maximum number of transactions that share a commit, which bounds the wait of the first one. Rolled-back ones count too:
/// otherwise a few that fail and retry could delay the commit of the others indefinitely, and perhaps wait for it
/// themselves.
const MOST: usize = 32;

/// The delay after which a finished member verifies that another member still holds the transaction.
const HANDED_TO_NOBODY: std::time::Duration = std::time::Duration::from_millis(5);

pub(crate) struct Writer {
    state: Arc<Mutex<State>>,
    waiting: Arc<AtomicUsize>,
}

struct State {
    connection: SqliteConnection,
    /// Members that are finished and wait for the commit of the open transaction.
    done: Vec<oneshot::Sender<Result<(), StoreError>>>,
    /// Whether BEGIN was sent and the transaction has not ended.
    open: bool,
    /// The number of members that have begun in the open transaction.
    members: usize,
}

impl Writer {
    pub(crate) fn new(connection: SqliteConnection) -> Self {
        Self {
            state: Arc::new(Mutex::new(State { connection, done: Vec::new(), open: false, members: 0 })),
            waiting: Arc::new(AtomicUsize::new(0)),
        }
    }

    pub(crate) async fn begin(&self) -> Result<SqliteTx, StoreError> {
        let waiting = Waiting::new(&self.waiting);
        let mut state = self.state.clone().lock_owned().await;
        drop(waiting);
        let (shared, waiting) = (self.state.clone(), self.waiting.clone());
        Unbroken::new(async move {
            let nested = state.open;
            // The first member of a group needs no savepoint: undoing it rolls back everything.
            state.connection.execute(if nested { "SAVEPOINT member" } else { "BEGIN IMMEDIATE" }).await?;
            state.members = if nested { state.members + 1 } else { 1 };
            state.open = true;
            Ok(SqliteTx { state: Some(state), shared, waiting, nested })
        })
        .await
    }

    pub(crate) async fn close(&self) {
        let mut state = self.state.lock().await;
        let _ = state.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let _ = state.connection.clear_cached_statements().await;
    }
}

/// Counts a caller as waiting until dropped, even if its future is cancelled.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A future that completes even if its caller is cancelled; its result is then dropped.
pub(crate) struct Unbroken<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Unbroken<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<T: Send + 'static> Future for Unbroken<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let work = self.0.as_mut().expect("it is not polled after its end");
        let result = ready!(work.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(result)
    }
}

impl<T: Send + 'static> Drop for Unbroken<T> {
    fn drop(&mut self) {
        if let (Some(work), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { drop(work.await) });
        }
    }
}

pub(crate) struct SqliteTx {
    state: Option<OwnedMutexGuard<State>>,
    shared: Arc<Mutex<State>>,
    waiting: Arc<AtomicUsize>,
    nested: bool,
}

impl SqliteTx {
    pub(crate) fn connection(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        match &mut self.state {
            Some(state) => Ok(&mut state.connection),
            None => Err(StoreError::Unavailable("the transaction has ended".to_owned())),
        }
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        Unbroken::new(self.commit_unbroken()).await
    }

    async fn commit_unbroken(mut self) -> Result<(), StoreError> {
        let Some(mut state) = self.state.take() else { return Err(StoreError::Unheard) };
        if self.nested {
            state.connection.execute("RELEASE member").await?;
        }
        let (sender, mut receiver) = oneshot::channel();
        state.done.push(sender);
        if self.waiting.load(Ordering::SeqCst) == 0 || state.members >= MOST {
            end(&mut state).await;
        }
        drop(state);
        loop {
            tokio::select! {
                result = &mut receiver => return result.unwrap_or(Err(StoreError::Unheard)),
                // The member it was handed to may have been cancelled in the queue; then this one has to end the
                // transaction.
                () = tokio::time::sleep(HANDED_TO_NOBODY) => {
                    let mut state = self.shared.lock().await;
                    if state.open && self.waiting.load(Ordering::SeqCst) == 0 {
                        end(&mut state).await;
                    }
                }
            }
        }
    }

    pub(crate) async fn rollback(mut self) {
        if let Some(state) = self.state.take() {
            Unbroken::new(undo(state, self.nested, self.waiting.clone())).await;
        }
    }
}

impl Drop for SqliteTx {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            let (nested, waiting) = (self.nested, self.waiting.clone());
            // Drop cannot await, so the undo runs in the background; it owns the lock, so no other caller gets in between.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(undo(state, nested, waiting));
            }
        }
    }
}

/// Rolls back one member of the group, and commits for the others if no other caller will.
async fn undo(mut state: OwnedMutexGuard<State>, nested: bool, waiting: Arc<AtomicUsize>) {
    if nested {
        let undone = state.connection.execute("ROLLBACK TO member; RELEASE member").await;
        if let Err(error) = undone {
            tracing::error!(%error, "a savepoint could not be rolled back; its whole group is rolled back");
            let _ = state.connection.execute("ROLLBACK").await;
            state.open = false;
            for waiter in state.done.drain(..) {
                let _ = waiter
                    .send(Err(StoreError::Unavailable("another write of the same group failed".to_owned())));
            }
            return;
        }
        if waiting.load(Ordering::SeqCst) == 0 || state.members >= MOST {
            end(&mut state).await;
        }
    } else {
        let _ = state.connection.execute("ROLLBACK").await;
        state.open = false;
    }
}

/// Commits the open transaction and notifies all members that wait for it.
async fn end(state: &mut State) {
    let result = state.connection.execute("COMMIT").await;
    if result.is_err() {
        let _ = state.connection.execute("ROLLBACK").await;
    }
    state.open = false;
    for waiter in state.done.drain(..) {
        let _ = waiter.send(match &result {
            Ok(_) => Ok(()),
            Err(error) if is_full(error) => Err(StoreError::Full(error.to_string())),
            Err(error) => Err(StoreError::Unavailable(format!("the commit failed: {error}"))),
        });
    }
}
