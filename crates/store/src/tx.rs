//! Transactions over either database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Postgres, Transaction};

use crate::StoreError;
use crate::fault::{Fault, Faults, Verdict};
use crate::sql::{Row, Sql, Value, bind_pg, bind_sqlite};
use crate::writer::SqliteTx;

/// An open transaction. Dropped without `commit`, it is rolled back.
pub struct Tx {
    inner: Inner,
    faults: Arc<Faults>,
    meter: Arc<Meter>,
    opened: Instant,
    in_database: Duration,
    /// Whether a statement failed, or was cut off before its answer. PostgreSQL answers the COMMIT of such a transaction
    /// with a rollback that looks like a success, and SQLite would commit what is left of it; neither may be told as done.
    failed: bool,
}

pub(crate) enum Inner {
    Pg(Transaction<'static, Postgres>),
    Sqlite(SqliteTx),
}

/// How long transactions were held by *us*, the database's own time not counted: a transaction that waits for anything
/// else is a bug, and the tests fail on one longer than 50 ms.
#[derive(Debug, Default)]
pub struct Meter(std::sync::atomic::AtomicU64);

impl Meter {
    /// The longest yet.
    pub fn longest_held(&self) -> Duration {
        Duration::from_micros(self.0.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn record(&self, held: Duration) {
        let micros = u64::try_from(held.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_max(micros, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Tx {
    pub(crate) fn new(inner: Inner, faults: Arc<Faults>, meter: Arc<Meter>) -> Self {
        Self { inner, faults, meter, opened: Instant::now(), in_database: Duration::ZERO, failed: false }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.inner, Inner::Pg(_))
    }

    /// Whether a planted bug leaves the named statement out; a statement that holds another within it must ask.
    pub(crate) fn skips(&self, name: &str) -> bool {
        self.faults.skips(name)
    }

    /// Whether a statement is to be sent (true), left out (false), or refused.
    fn admit(&mut self, name: &str) -> Result<bool, StoreError> {
        if self.failed {
            return Err(after_failure());
        }
        let verdict = self.faults.on_statement(name);
        self.failed = !matches!(verdict, Verdict::Skip); // until its answer is heard
        match verdict {
            Verdict::Proceed => Ok(true),
            Verdict::Skip => Ok(false),
            Verdict::Fail => Err(StoreError::Unavailable(format!("injected before {name}"))),
        }
    }

    fn note<T>(&mut self, started: Instant, result: Result<T, sqlx::Error>) -> Result<T, StoreError> {
        self.in_database += started.elapsed();
        self.failed = result.is_err();
        Ok(result?)
    }

    /// Runs a statement and says how many rows it touched.
    pub(crate) async fn execute(&mut self, sql: &Sql, args: Vec<Value>) -> Result<u64, StoreError> {
        if !self.admit(sql.name)? {
            return Ok(1);
        }
        let started = Instant::now();
        let result = match &mut self.inner {
            Inner::Pg(tx) => bind_pg(sql, args).execute(&mut **tx).await.map(|done| done.rows_affected()),
            Inner::Sqlite(tx) => {
                bind_sqlite(sql, args).execute(tx.connection()?).await.map(|done| done.rows_affected())
            }
        };
        self.note(started, result)
    }

    /// Runs a statement that must touch exactly one row: a version or a generation that moved on touches none.
    pub(crate) async fn execute_one(
        &mut self,
        sql: &Sql,
        args: Vec<Value>,
        otherwise: StoreError,
    ) -> Result<(), StoreError> {
        if self.execute(sql, args).await? == 1 { Ok(()) } else { Err(otherwise) }
    }

    /// Runs a statement and reads its rows.
    pub(crate) async fn fetch_all(&mut self, sql: &Sql, args: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        if !self.admit(sql.name)? {
            return Ok(Vec::new());
        }
        let started = Instant::now();
        let rows = match &mut self.inner {
            Inner::Pg(tx) => {
                let rows = bind_pg(sql, args).fetch_all(&mut **tx).await;
                rows.map(|rows| rows.into_iter().map(Row::Pg).collect())
            }
            Inner::Sqlite(tx) => {
                let rows = bind_sqlite(sql, args).fetch_all(tx.connection()?).await;
                rows.map(|rows| rows.into_iter().map(Row::Sqlite).collect())
            }
        };
        self.note(started, rows)
    }

    /// Commits. `Unheard` means that nobody knows; everything else means that it did not happen.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.meter.record(self.opened.elapsed().saturating_sub(self.in_database));
        if self.failed {
            self.rollback().await;
            return Err(after_failure());
        }
        let fault = self.faults.on_commit();
        if matches!(fault, Some(Fault::FailCommit)) {
            return Err(StoreError::Unavailable("injected before COMMIT".to_owned()));
        }
        match self.inner {
            Inner::Pg(tx) => tx.commit().await.map_err(|error| match error {
                // The server said no: it did not happen. Anything else was lost on the way.
                sqlx::Error::Database(_) => StoreError::from(error),
                _ => StoreError::Unheard,
            })?,
            Inner::Sqlite(tx) => tx.commit().await?,
        }
        if fault.is_some() { Err(StoreError::Unheard) } else { Ok(()) }
    }

    /// Rolls back now, rather than when dropped.
    pub async fn rollback(self) {
        match self.inner {
            Inner::Pg(tx) => {
                let _ = tx.rollback().await;
            }
            Inner::Sqlite(tx) => tx.rollback().await,
        }
    }
}

fn after_failure() -> StoreError {
    StoreError::Unavailable("a statement of this transaction failed, so nothing of it was done".to_owned())
}
