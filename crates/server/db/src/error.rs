//! What can go wrong in the store, sorted by what the caller must do about it.

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique index or a CHECK refused the row.
    #[error("conflict: {0}")]
    Conflict(String),
    /// A row that this one refers to is not there any more.
    #[error("what it refers to is gone: {0}")]
    Gone(String),
    /// The row's version is not the expected one.
    #[error("the version has changed")]
    Stale,
    /// The lease's generation is not the current one: another took over.
    #[error("fenced: another holder has the lease")]
    Fenced,
    /// COMMIT was sent and its answer was not heard: it may have happened.
    #[error("the commit may have happened")]
    Unheard,
    /// The database cannot be used now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// A text holds U+0000, which the database cannot store.
    #[error("a text holds the character U+0000")]
    Nul,
    /// The database's disk is full: nothing was written.
    #[error("the disk of the database is full: {0}")]
    Full(String),
    /// A row that this program cannot have written.
    #[error("the database holds something that is not {0}")]
    Corrupt(&'static str),
    /// The database is from a newer release.
    #[error(
        "the database has migration {found}, which this program (up to {known}) does not know: \
         run a release at least as new as the one that wrote it, or restore a backup made before the upgrade"
    )]
    TooNew {
        /// The newest migration in the database.
        found: i64,
        /// The newest one in this program.
        known: i64,
    },
    /// Anything else.
    #[error("database: {0}")]
    Other(sqlx::Error),
}

/// Whether the database had no room to write: PostgreSQL's `disk_full`, SQLite's `SQLITE_FULL` and `SQLITE_IOERR_SHMSIZE`.
pub(crate) fn is_full(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(database) = error else { return false };
    matches!(database.code().as_deref(), Some("53100" | "13" | "4874"))
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database)
                if database.is_unique_violation() || database.is_check_violation() =>
            {
                StoreError::Conflict(database.constraint().unwrap_or(database.message()).to_owned())
            }
            sqlx::Error::Database(database) if database.is_foreign_key_violation() => {
                StoreError::Gone(database.constraint().unwrap_or(database.message()).to_owned())
            }
            // Text with a zero byte, or a JSON document with `\\u0000`.
            sqlx::Error::Database(database)
                if matches!(database.code().as_deref(), Some("22021" | "22P05")) =>
            {
                StoreError::Nul
            }
            _ if is_full(&error) => StoreError::Full(error.to_string()),
            // Serialization failure, deadlock, shutting down, too many connections, cannot connect now.
            sqlx::Error::Database(database)
                if matches!(
                    database.code().as_deref(),
                    Some("40001" | "40P01" | "57P01" | "57P02" | "57P03" | "53300" | "5" | "6" | "517")
                ) =>
            {
                StoreError::Unavailable(database.message().to_owned())
            }
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => StoreError::Unavailable(error.to_string()),
            _ => StoreError::Other(error),
        }
    }
}
