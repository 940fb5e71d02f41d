//! A database for one test, removed with it.
//!
//! It comes with its tables: a database is a copy of one that was migrated once, for PostgreSQL once for each server and for
//! SQLite once for each process. Migrating each, with a `psql` of its own, took most of the time of a PostgreSQL test. To
//! test the opening of an empty database, use [`Database::sqlite_empty`] and [`Database::postgres_empty`].

mod server;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use muster_db::{Location, Store};
use muster_ids::Env;

use server::on_own_thread;

/// A database that is removed when it is dropped.
pub struct Database {
    /// Its location.
    pub location: Location,
    folder: Arc<tempfile::TempDir>,
    created: Option<String>,
}

impl Database {
    /// Creates a SQLite file in a folder of its own.
    pub fn sqlite() -> Self {
        static MIGRATED: LazyLock<Vec<u8>> = LazyLock::new(|| on_own_thread(migrated_file()));
        let database = Self::sqlite_empty();
        let Location::Sqlite(path) = &database.location else { unreachable!("it is SQLite's") };
        std::fs::write(path, &*MIGRATED).expect("the copy can be written");
        database
    }

    /// Likewise before its first migration: there is no file yet.
    pub fn sqlite_empty() -> Self {
        let folder = folder();
        Self {
            location: Location::Sqlite(folder.path().join("muster.db")),
            folder: Arc::new(folder),
            created: None,
        }
    }

    /// Creates a database in the PostgreSQL server started by `tools/with-postgres`.
    pub fn postgres() -> Self {
        Self::create(server::copy_template)
    }

    /// Likewise before its first migration.
    pub fn postgres_empty() -> Self {
        Self::create(server::create)
    }

    fn create(make: impl FnOnce(&str)) -> Self {
        let name = format!("test_{}", Env::system().uuid().simple());
        make(&name);
        Self {
            location: Location::Postgres(server::url(&name)),
            folder: Arc::new(folder()),
            created: Some(name),
        }
    }

    /// Returns a copy with rows and files. No server may use this database meanwhile.
    pub fn copy(&self) -> Self {
        let copy = match &self.location {
            Location::Sqlite(path) => {
                let copy = Self::sqlite_empty();
                let Location::Sqlite(to) = &copy.location else { unreachable!("it is SQLite's") };
                std::fs::copy(path, to).expect("the copy can be written");
                copy
            }
            Location::Postgres(_) => {
                let from = self.created.as_deref().expect("a database of the test's own");
                Self::create(|name| server::copy(from, name))
            }
        };
        copy_files(&self.folder(), &copy.folder());
        copy
    }

    /// Returns one of each kind.
    pub fn both() -> Vec<Self> {
        vec![Self::sqlite(), Self::postgres()]
    }

    /// Returns the folder for its files.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Waits until a session of this PostgreSQL database waits for a lock of another; fails after ten seconds. A test that
    /// holds the lock can then change what the session has read before.
    pub async fn until_a_session_waits_for_a_lock(&self) {
        let Location::Postgres(url) = &self.location else { panic!("SQLite does not tell") };
        for _ in 0..500 {
            if server::lock_waiters(url).await > 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("no session waits for a lock");
    }

    /// Opens it.
    pub async fn open(&self) -> Store {
        Store::open(&self.location, 16).await.expect("a fresh database opens")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(name) = &self.created {
            server::remove(name);
        }
    }
}

/// Copies the files beside the database; SQLite's own come and go until its last connection is closed.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("the folder can be read").map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind of file").is_dir() {
            std::fs::create_dir_all(&target).expect("a folder");
            copy_files(&entry.path(), &target);
        } else if !entry.file_name().to_string_lossy().starts_with("muster.db") {
            std::fs::copy(entry.path(), target).expect("the copy can be written");
        }
    }
}

/// Creates a folder beside the PostgreSQL server, if there is one: with `MUSTER_PG_FAST=1` that is in memory, and leftovers
/// of killed tests are removed with the server.
fn folder() -> tempfile::TempDir {
    let parent = std::env::var_os("MUSTER_TEST_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    tempfile::Builder::new().prefix("muster-test-").tempdir_in(parent).expect("a temporary folder")
}

/// Returns the content of a SQLite file with all tables and no rows.
async fn migrated_file() -> Vec<u8> {
    let folder = folder();
    let location = Location::Sqlite(folder.path().join("muster.db"));
    let store = Store::open(&location, 1).await.expect("a fresh database opens");
    // A copy, because the last pages of the file itself are still in its log.
    let copy = folder.path().join("copy.db");
    store.backup_to(&copy).await.expect("a copy can be written");
    store.close().await;
    std::fs::read(copy).expect("the copy can be read")
}
