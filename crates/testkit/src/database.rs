//! A database of a test's own, gone when the test is.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use muster_ids::World;
use muster_store::{Location, Store};

/// A database that is removed when it is dropped.
pub struct Database {
    /// Where it is.
    pub location: Location,
    folder: Arc<tempfile::TempDir>,
    created: Option<(String, String)>,
}

impl Database {
    /// A SQLite file in a folder of its own.
    pub fn sqlite() -> Self {
        let folder = tempfile::Builder::new().prefix("muster-test-").tempdir().expect("a temporary folder");
        Self {
            location: Location::Sqlite(folder.path().join("muster.db")),
            folder: Arc::new(folder),
            created: None,
        }
    }

    /// A fresh database in the PostgreSQL that `tools/with-postgres` started.
    pub fn postgres() -> Self {
        let server = std::env::var("MUSTER_TEST_POSTGRES")
            .expect("these tests need a PostgreSQL: run them as `tools/with-postgres cargo nextest run`, or `make test`");
        let name = format!("test_{}", World::system().uuid().simple());
        psql(&server, &format!("CREATE DATABASE {name}"));
        let base = server.rsplit_once('/').expect("a URL with a database").0.to_owned();
        let folder = tempfile::Builder::new().prefix("muster-test-").tempdir().expect("a temporary folder");
        Self {
            location: Location::Postgres(format!("{base}/{name}")),
            folder: Arc::new(folder),
            created: Some((server, name)),
        }
    }

    /// One of each.
    pub fn both() -> Vec<Self> {
        vec![Self::sqlite(), Self::postgres()]
    }

    /// A folder for the files that belong to it.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Opens it.
    pub async fn open(&self) -> Store {
        Store::open(&self.location, 16).await.expect("a fresh database opens")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some((server, name)) = &self.created {
            psql(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
}

fn psql(server: &str, statement: &str) {
    let output = Command::new("psql")
        .args([server, "--quiet", "--no-psqlrc", "--command", statement])
        .output()
        .expect("psql can be run: `make setup` installs it");
    assert!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
}
