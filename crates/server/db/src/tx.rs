//! Transactions over either database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use sqlx::{PgPool, Postgres, Transaction};

use crate::StoreError;
use crate::fault::{Fault, FaultAction, Faults};
use crate::idempotency::{fuse, fuse_sqlite};
use crate::meter::{Held, Meter};
use crate::sql::{Row, Sql, Value, bind_pg, bind_pg_text, bind_sqlite};
use crate::writer::{SqliteTx, Unbroken};

/// An open transaction. Dropped without `commit`, it is rolled back.
pub struct Tx {
    inner: Inner,
    faults: Arc<Faults>,
    held: Held,
    /// Whether a statement failed, or was cancelled before its response. PostgreSQL answers the COMMIT of such a transaction
    /// with success and stores nothing; SQLite would store half of it. Neither counts as a commit.
    failed: bool,
    /// Whether a statement changed a row.
    wrote: bool,
    /// Whether the last write of the store failed because the disk is full.
    full: Arc<AtomicBool>,
}

pub(crate) enum Inner {
    Pg(PgTx),
    Sqlite(SqliteTx, HeldBack),
}

/// An insert that is deferred to be sent with the command record.
type HeldBack = Option<(Sql, Vec<Value>)>;

/// A PostgreSQL transaction that is opened as late as possible.
///
/// Each round trip costs both sides more than the statement in it. So BEGIN is deferred until it is needed, and so is a
/// first insert: if the command record comes next, the three inserts are sent as one statement, which needs neither BEGIN
/// nor COMMIT. Anything else opens the transaction and sends the deferred insert first.
pub(crate) struct PgTx {
    pool: PgPool,
    open: Option<Transaction<'static, Postgres>>,
    held_back: HeldBack,
    /// Whether the single statement has committed on its own, and with which result.
    committed: Option<Result<(), StoreError>>,
}

impl PgTx {
    pub(crate) fn new(pool: PgPool) -> Self {
        Self { pool, open: None, held_back: None, committed: None }
    }

    async fn connection(&mut self) -> Result<&mut Transaction<'static, Postgres>, StoreError> {
        if self.open.is_none() {
            // A BEGIN that was sent but not recorded would leave the connection in an open transaction, and its next user
            // would get a success for a commit that did not happen.
            let pool = self.pool.clone();
            self.open = Some(Unbroken::new(async move { pool.begin().await }).await?);
        }
        let Some(tx) = &mut self.open else {
            return Err(StoreError::Unavailable("the transaction has ended".to_owned()));
        };
        if let Some((sql, args)) = self.held_back.take() {
            bind_pg(&sql, args).execute(&mut **tx).await?;
        }
        Ok(tx)
    }
}

/// The futures are boxed: the drivers' code is then compiled once, in this crate, and not in every crate that awaits a
/// statement. The allocation is small beside a round trip.
impl Inner {
    fn execute<'a>(&'a mut self, sql: &'a Sql, args: Vec<Value>) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            Ok(match self {
                Inner::Pg(tx) => {
                    bind_pg(sql, args).execute(&mut **tx.connection().await?).await?.rows_affected()
                }
                Inner::Sqlite(tx, held_back) => {
                    flush(tx, held_back).await?;
                    bind_sqlite(sql, args).execute(tx.connection()?).await?.rows_affected()
                }
            })
        })
    }

    fn fetch_all<'a>(
        &'a mut self,
        sql: &'a Sql,
        args: Vec<Value>,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            Ok(match self {
                Inner::Pg(tx) => {
                    let rows = bind_pg(sql, args).fetch_all(&mut **tx.connection().await?).await?;
                    rows.into_iter().map(Row::Pg).collect()
                }
                Inner::Sqlite(tx, held_back) => {
                    flush(tx, held_back).await?;
                    let rows = bind_sqlite(sql, args).fetch_all(tx.connection()?).await?;
                    rows.into_iter().map(Row::Sqlite).collect()
                }
            })
        })
    }
}

async fn flush(tx: &mut SqliteTx, held_back: &mut HeldBack) -> Result<(), StoreError> {
    if let Some((sql, args)) = held_back.take() {
        bind_sqlite(&sql, args).execute(tx.connection()?).await?;
    }
    Ok(())
}

fn lost() -> StoreError {
    StoreError::Unavailable("a statement of this transaction failed, so it was rolled back".to_owned())
}

impl Tx {
    pub(crate) fn new(inner: Inner, faults: Arc<Faults>, meter: Arc<Meter>, full: Arc<AtomicBool>) -> Self {
        Self { inner, faults, held: Held::begin(meter), failed: false, wrote: false, full }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.inner, Inner::Pg(_))
    }

    /// Reports whether an injected bug skips the named statement; a statement that embeds another one must check.
    pub(crate) fn skips(&self, name: &str) -> bool {
        self.faults.skips(name)
    }

    /// Admits a statement, unless the transaction has failed or ended, or a fault is armed. The transaction counts as failed
    /// until the response arrives. Returns `false` if the statement is to be skipped.
    fn admit(&mut self, name: &str) -> Result<bool, StoreError> {
        if self.failed {
            return Err(lost());
        }
        if matches!(&self.inner, Inner::Pg(tx) if tx.committed.is_some()) {
            return Err(StoreError::Unavailable(format!("{name} came after the transaction had committed")));
        }
        match self.faults.on_statement(name) {
            FaultAction::Proceed => {
                self.failed = true;
                Ok(true)
            }
            FaultAction::Skip => Ok(false),
            FaultAction::Fail => {
                self.failed = true;
                Err(StoreError::Unavailable(format!("injected before {name}")))
            }
        }
    }

    fn note<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        self.held.leave_database();
        self.failed = result.is_err();
        if matches!(result, Err(StoreError::Full(_))) {
            self.full.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Executes a statement and returns the number of affected rows.
    pub(crate) async fn execute(&mut self, sql: &Sql, args: Vec<Value>) -> Result<u64, StoreError> {
        if !self.admit(sql.name)? {
            return Ok(1);
        }
        self.held.enter_database();
        let result = self.inner.execute(sql, args).await;
        self.wrote |= matches!(result, Ok(1..));
        self.note(result)
    }

    /// Executes an insert of one row. The first insert of a transaction may be deferred, and then fails later with the same
    /// error.
    pub(crate) async fn insert(&mut self, sql: &Sql, args: Vec<Value>) -> Result<(), StoreError> {
        if !self.admit(sql.name)? {
            return Ok(());
        }
        let place = match &mut self.inner {
            Inner::Pg(tx) if tx.open.is_none() => Some(&mut tx.held_back),
            Inner::Pg(_) => None,
            Inner::Sqlite(_, held_back) => Some(held_back),
        };
        if let Some(held_back @ None) = place
            && fuse(sql).is_some()
        {
            *held_back = Some((*sql, args));
            (self.failed, self.wrote) = (false, true);
            return Ok(());
        }
        self.held.enter_database();
        let result = self.inner.execute(sql, args).await;
        self.wrote = true;
        self.note(result).map(drop)
    }

    /// Writes the command record together with the deferred insert, if any; that is then also the commit, and nothing may
    /// follow. Returns `false` if the key was taken.
    pub(crate) async fn execute_command(
        &mut self,
        command: &Sql,
        mut args: Vec<Value>,
    ) -> Result<bool, StoreError> {
        let held_back = match &mut self.inner {
            Inner::Pg(tx) if tx.open.is_none() => tx.held_back.take(),
            Inner::Pg(_) | Inner::Sqlite(..) => None,
        };
        let Some((effect, values)) = held_back else { return Ok(self.execute(command, args).await? == 1) };
        if !self.admit(command.name)? {
            return Ok(true);
        }
        // This statement is also the commit.
        let fault = self.faults.on_commit();
        if matches!(fault, Some(Fault::FailCommit)) {
            return Err(StoreError::Unavailable("injected before COMMIT".to_owned()));
        }
        let (Inner::Pg(tx), Some(text)) = (&mut self.inner, fuse(&effect)) else {
            return Err(StoreError::Corrupt("a fused statement"));
        };
        args.extend(values);
        self.held.enter_database();
        let done = bind_pg_text(text, args).execute(&tx.pool).await.map_err(|error| match error {
            sqlx::Error::Database(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
                StoreError::from(error)
            }
            // Sent, and then lost: the commit may have happened.
            _ => StoreError::Unheard,
        });
        if done.is_ok() {
            tx.committed = Some(if fault.is_some() { Err(StoreError::Unheard) } else { Ok(()) });
        }
        Ok(self.note(done)?.rows_affected() == 1)
    }

    /// Does the same on SQLite: sends the effect, the key and the outbox row in one message to the thread that owns the
    /// connection, because the message costs more than the inserts. Returns `None` if no insert was deferred.
    pub(crate) async fn execute_command_sqlite(
        &mut self,
        args: &[Value],
    ) -> Result<Option<bool>, StoreError> {
        let Inner::Sqlite(_, held_back) = &mut self.inner else { return Ok(None) };
        let Some((effect, mut values)) = held_back.take() else { return Ok(None) };
        let Some(text) = fuse_sqlite(&effect) else { return Err(StoreError::Corrupt("a fused statement")) };
        if !self.admit("RECORD_COMMAND")? {
            return Ok(Some(true));
        }
        values.extend_from_slice(args);
        let fused = Sql { name: "RECORD_COMMAND", pg: text, sqlite: text };
        self.held.enter_database();
        let result = self.inner.execute(&fused, values).await;
        match self.note(result) {
            Ok(_) => Ok(Some(true)),
            Err(StoreError::Conflict(what)) if what.contains("idempotency.") => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// Executes a statement that must affect exactly one row; with a stale version or generation it affects none.
    pub(crate) async fn execute_one(
        &mut self,
        sql: &Sql,
        args: Vec<Value>,
        otherwise: StoreError,
    ) -> Result<(), StoreError> {
        if self.execute(sql, args).await? == 1 { Ok(()) } else { Err(otherwise) }
    }

    /// Executes a statement and returns its rows.
    pub(crate) async fn fetch_all(&mut self, sql: &Sql, args: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        if !self.admit(sql.name)? {
            return Ok(Vec::new());
        }
        self.held.enter_database();
        let rows = self.inner.fetch_all(sql, args).await;
        self.note(rows)
    }

    /// Commits. `Unheard` means that the outcome is unknown; any other error means that the commit did not happen.
    pub async fn commit(self) -> Result<(), StoreError> {
        let (wrote, full) = (self.wrote, self.full.clone());
        let result = self.send_commit().await;
        match &result {
            Err(StoreError::Full(_)) => full.store(true, Ordering::Relaxed),
            // A transaction that wrote nothing commits on a full disk too.
            Ok(()) if wrote => full.store(false, Ordering::Relaxed),
            _ => {}
        }
        result
    }

    async fn send_commit(self) -> Result<(), StoreError> {
        self.held.end();
        if self.failed {
            return Err(lost());
        }
        let mut inner = self.inner;
        if let Inner::Pg(tx) = &mut inner {
            if let Some(committed) = tx.committed.take() {
                return committed;
            }
            if tx.held_back.is_some() {
                tx.connection().await?;
            }
        }
        if let Inner::Sqlite(tx, held_back) = &mut inner {
            flush(tx, held_back).await?;
        }
        let fault = self.faults.on_commit();
        if matches!(fault, Some(Fault::FailCommit)) {
            return Err(StoreError::Unavailable("injected before COMMIT".to_owned()));
        }
        match inner {
            Inner::Pg(PgTx { open: Some(tx), .. }) => tx.commit().await.map_err(|error| match error {
                // The server returned an error: the commit did not happen. Any other error means a lost response.
                sqlx::Error::Database(_) => StoreError::from(error),
                _ => StoreError::Unheard,
            })?,
            Inner::Pg(PgTx { open: None, .. }) => {}
            Inner::Sqlite(tx, _) => tx.commit().await?,
        }
        if fault.is_some() { Err(StoreError::Unheard) } else { Ok(()) }
    }

    /// Rolls back now instead of on drop.
    pub async fn rollback(self) {
        self.held.end();
        match self.inner {
            Inner::Pg(PgTx { open: Some(tx), .. }) => {
                let _ = tx.rollback().await;
            }
            Inner::Pg(PgTx { open: None, .. }) => {}
            Inner::Sqlite(tx, _) => tx.rollback().await,
        }
    }
}
