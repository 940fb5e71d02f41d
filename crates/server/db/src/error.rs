//! Errors of the store, classified by how the caller must react.

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique index or a CHECK rejected the row.
    #[error("conflict: {0}")]
    Conflict(String),
    /// A referenced row does not exist any more.
    #[error("the referenced resource is gone: {0}")]
    Gone(String),
    /// The row does not have the expected version.
    #[error("the version has changed")]
    Stale,
    /// The lease's generation is not current: another holder superseded it.
    #[error("fenced: another holder has the lease")]
    Fenced,
    /// COMMIT was sent but its response was lost: it may have happened.
    #[error("the commit may have succeeded")]
    Unheard,
    /// The database is not available now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// A text contains U+0000, which the database cannot store.
    #[error("a text contains the character U+0000")]
    Nul,
    /// The database's disk is full; nothing was written.
    #[error("the disk of the database is full: {0}")]
    Full(String),
    /// A row that this program cannot have written.
    #[error("the database contains an invalid value: expected {0}")]
    Corrupt(&'static str),
    /// The database is from a newer release.
    #[error(
        "the database has migration {found}, which this program (up to {known}) does not know: run a release \
         at least as new as the one that wrote it, or restore a backup from before the upgrade"
    )]
    TooNew {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration in this program.
        known: i64,
    },
    /// Any other error.
    #[error("database: {0}")]
    Other(sqlx::Error),
}

/// Reports whether the database ran out of disk space: PostgreSQL's `disk_full`, SQLite's `SQLITE_FULL` and
/// `SQLITE_IOERR_SHMSIZE`.
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
