//! SQLite's one writer, with group commit.
//!
//! SQLite takes one writer at a time and pays one flush per commit. When others already wait for their turn, a
//! transaction that is done does not commit at once: it hands the open transaction to the next, and whoever finds nobody
//! waiting commits for all. Each answers its caller only after that commit, so an acknowledged write is on the disk, as
//! before; sixteen callers then share a flush instead of queueing for sixteen. A savepoint keeps each one's failure its own.
//!
//! A caller may be cut off at any await, as when its client hangs up. What opens or ends a transaction then runs on by
//! itself ([`Unbroken`]): a BEGIN or COMMIT that was sent and not noted would leave the writer out of step with SQLite.

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

/// So many transactions at most share a commit: it bounds how long the first one waits. Those that are taken back count too:
/// else a few that fail and try again would keep the others from their commit for as long as they do, and perhaps wait for it.
const MOST: usize = 32;

/// How long a finished member waits before it looks whether somebody still holds the transaction.
const HANDED_TO_NOBODY: std::time::Duration = std::time::Duration::from_millis(5);

pub(crate) struct Writer {
    state: Arc<Mutex<State>>,
    waiting: Arc<AtomicUsize>,
}

struct State {
    connection: SqliteConnection,
    /// Those who are done inside the open transaction and wait for its commit.
    done: Vec<oneshot::Sender<Result<(), StoreError>>>,
    /// Whether BEGIN was sent and not yet ended.
    open: bool,
    /// How many have begun in the open transaction.
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
            // The first of a group needs no savepoint: to undo it is to roll back everything.
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

/// Counts a caller as waiting, also when its future is dropped.
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

/// Work that is finished even when whoever waits for it goes away; what it results in is then dropped.
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
                // The one it was handed to may have gone away while it still waited for its turn; then nobody else
                // would end the transaction.
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
            // Dropping cannot wait, so the undo runs on; the lock travels with it and nobody gets in between.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(undo(state, nested, waiting));
            }
        }
    }
}

/// Takes back one member of the group, and commits for the others if nobody else will.
async fn undo(mut state: OwnedMutexGuard<State>, nested: bool, waiting: Arc<AtomicUsize>) {
    if nested {
        let undone = state.connection.execute("ROLLBACK TO member; RELEASE member").await;
        if let Err(error) = undone {
            tracing::error!(%error, "a savepoint could not be undone; its whole group is rolled back");
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

/// Commits the open transaction and tells everybody who waits for it.
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
