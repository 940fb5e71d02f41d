//! Opening a database: connections, migrations, the wake-up channel, backups.

use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use crate::migrations::{newest_migration, postgres_migrator, sqlite_migrator};
use crate::writer::Writer;
use crate::{Backend, Result, Store, StoreError};

/// The channel on which the sealer wakes the other replicas. Notifications carry no payload.
const CHANNEL: &str = "muster_sealed";

/// The location of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file.
    Sqlite(PathBuf),
    /// A connection URL.
    Postgres(String),
}

impl Location {
    /// Parses a location: `postgres://…` is PostgreSQL, anything else the path of a SQLite file, with or without `sqlite:`.
    pub fn parse(text: &str) -> Self {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            Location::Postgres(text.to_owned())
        } else {
            Location::Sqlite(PathBuf::from(text.strip_prefix("sqlite:").unwrap_or(text)))
        }
    }
}

fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // NORMAL would lose acknowledged commits on power failure.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        // Fits a whole list page, so that the reader and the thread that owns the connection need not alternate.
        .row_buffer_size(256)
        .disable_statement_logging()
}

impl Store {
    /// Opens the database and migrates an older schema; refuses a newer one.
    pub async fn open(location: &Location, connections: u32) -> Result<Self> {
        let backend = match location {
            Location::Sqlite(path) => open_sqlite(path).await?,
            Location::Postgres(url) => open_postgres(url, connections).await?,
        };
        Ok(Self {
            backend,
            faults: Arc::default(),
            meter: Arc::default(),
            full: Arc::default(),
            location: location.clone(),
        })
    }

    /// Returns the newest migration in the database.
    pub async fn schema_version(&self) -> Result<i64> {
        const VERSION: &str = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations";
        Ok(match &self.backend {
            Backend::Pg(pool) => sqlx::query_scalar(VERSION).fetch_one(pool).await?,
            Backend::Sqlite { read, .. } => sqlx::query_scalar(VERSION).fetch_one(read).await?,
        })
    }

    /// Verifies that the database responds.
    pub async fn ping(&self) -> Result<()> {
        match &self.backend {
            Backend::Pg(pool) => pool.execute("SELECT 1").await.map(drop)?,
            Backend::Sqlite { read, .. } => read.execute("SELECT 1").await.map(drop)?,
        }
        Ok(())
    }

    /// Wakes the [`Listener`]s of other replicas.
    pub async fn wake(&self) -> Result<()> {
        if let Backend::Pg(pool) = &self.backend {
            pool.execute("NOTIFY muster_sealed").await?;
        }
        Ok(())
    }

    /// Returns a listener for wake-ups from other replicas; `None` on SQLite, which has a single replica.
    pub async fn listener(&self) -> Result<Option<Listener>> {
        match &self.location {
            Location::Postgres(url) => {
                let mut listener = PgListener::connect(url).await?;
                listener.listen(CHANNEL).await?;
                Ok(Some(Listener(listener)))
            }
            Location::Sqlite(_) => Ok(None),
        }
    }

    /// Writes a consistent copy of an embedded database to a new file.
    pub async fn backup_to(&self, target: &Path) -> Result<()> {
        let Backend::Sqlite { read, .. } = &self.backend else {
            return Err(StoreError::Unavailable(
                "back up PostgreSQL with its own tools (pg_dump)".to_owned(),
            ));
        };
        let target = target.to_string_lossy().into_owned();
        sqlx::query("VACUUM INTO $1").bind(target).execute(read).await?;
        Ok(())
    }
}

/// A subscription to wake-ups.
pub struct Listener(PgListener);

impl Listener {
    /// Returns on the next wake-up; reconnects on its own.
    pub async fn wait(&mut self) -> Result<()> {
        self.0.recv().await.map(drop).map_err(StoreError::from)
    }
}

/// Ensures that only the owner can read the database, whatever the umask: it holds tenants' data in clear. SQLite gives its
/// other files the same mode.
fn restrict_to_owner(path: &Path) -> std::io::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

async fn open_sqlite(path: &Path) -> Result<Backend> {
    // SQLite takes an empty file for a new database, and a platform that lost its rows would start as another one.
    if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        return Err(StoreError::Unavailable(format!(
            "the database file {} is empty: restore it from a backup; to start a new platform, remove the data folder",
            path.display()
        )));
    }
    restrict_to_owner(path).map_err(|error| {
        StoreError::Unavailable(format!("the database file {} cannot be opened: {error}", path.display()))
    })?;
    let options = sqlite_options(path).create_if_missing(true);
    let mut connection = options.connect().await?;
    migrate(&sqlite_migrator(), &mut connection).await?;
    let read = SqlitePoolOptions::new()
        .max_connections(4)
        .min_connections(1)
        // The database is a local file; a liveness check would cost a round trip to the connection's thread for each read.
        .test_before_acquire(false)
        .connect_with(sqlite_options(path).read_only(true))
        .await?;
    Ok(Backend::Sqlite { read, writer: Arc::new(Writer::new(connection)) })
}

async fn open_postgres(url: &str, connections: u32) -> Result<Backend> {
    let options = PgConnectOptions::from_str(url)?.application_name("muster").disable_statement_logging();
    let mut connection = options.connect().await?;
    migrate(&postgres_migrator(), &mut connection).await?;
    connection.close().await?;
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(Duration::from_secs(5))
        // The failing statement reveals a dead connection; a check before each use would double the round trips.
        .test_before_acquire(false)
        .connect_with(options)
        .await?;
    Ok(Backend::Pg(pool))
}

async fn migrate<C>(migrator: &Migrator, connection: &mut C) -> Result<()>
where
    C: Migrate,
{
    match migrator.run_direct(None, connection, false).await {
        Ok(()) => Ok(()),
        Err(MigrateError::VersionMissing(found)) => {
            Err(StoreError::TooNew { found, known: newest_migration() })
        }
        Err(MigrateError::Execute(error)) => Err(error.into()),
        Err(error) => Err(StoreError::Unavailable(format!("the schema could not be migrated: {error}"))),
    }
}
