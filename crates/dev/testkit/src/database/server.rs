//! Management of databases on the PostgreSQL server, from one template.

use std::sync::{LazyLock, mpsc};

use muster_db::{Location, Store, migrations_digest};
use parking_lot::Mutex;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

/// Advisory lock number shared by all processes of a run.
const MAKING_THE_TEMPLATE: i64 = 7_051_920_260;

type Job = (Task, mpsc::Sender<Result<(), String>>);

enum Task {
    Create(String),
    CopyTemplate(String),
    Copy { from: String, name: String },
    Remove(String),
}

/// One thread with one connection, for the lifetime of the process. Databases are created and dropped in synchronous code,
/// inside and outside of short-lived runtimes; a connection belongs to the runtime that opened it.
static WORKER: LazyLock<Mutex<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (jobs, todo) = mpsc::channel::<Job>();
    std::thread::spawn(move || {
        let runtime = runtime();
        let mut connection = None;
        while let Ok((task, done)) = todo.recv() {
            let result = runtime.block_on(carry_out(&mut connection, task));
            if result.is_err() {
                connection = None;
            }
            let _ = done.send(result.map_err(|error| error.to_string()));
        }
    });
    Mutex::new(jobs)
});

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Blocks on a future in synchronous code, inside or outside of a runtime.
pub(super) fn on_own_thread<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(future)).join().expect("it does not panic"))
}

fn ask(task: Task) {
    let (done, result) = mpsc::channel();
    WORKER.lock().send((task, done)).expect("the thread is there");
    result.recv().expect("the thread answers").expect("PostgreSQL does it");
}

fn server() -> String {
    std::env::var("MUSTER_TEST_POSTGRES").expect(
        "these tests need a PostgreSQL: run them as `tools/with-postgres cargo nextest run`, or `make test`",
    )
}

/// Returns the URL of a database.
pub(super) fn url(name: &str) -> String {
    let server = server();
    let base = server.rsplit_once('/').expect("a URL with a database").0;
    format!("{base}/{name}")
}

/// Creates a database without tables.
pub(super) fn create(name: &str) {
    server();
    ask(Task::Create(name.to_owned()));
}

/// Creates a database with all tables and no rows.
pub(super) fn copy_template(name: &str) {
    server();
    ask(Task::CopyTemplate(name.to_owned()));
}

/// Copies a database without open connections.
pub(super) fn copy(from: &str, name: &str) {
    ask(Task::Copy { from: from.to_owned(), name: name.to_owned() });
}

/// Removes a database, along with its open connections.
pub(super) fn remove(name: &str) {
    ask(Task::Remove(name.to_owned()));
}

async fn carry_out(connection: &mut Option<PgConnection>, task: Task) -> sqlx::Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(PgConnection::connect(&server()).await?),
    };
    match task {
        Task::Create(name) => run(connection, format!("CREATE DATABASE {name}")).await,
        Task::Remove(name) => run(connection, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await,
        Task::Copy { from, name } => {
            run(connection, format!("CREATE DATABASE {name} TEMPLATE {from} STRATEGY FILE_COPY")).await
        }
        Task::CopyTemplate(name) => {
            let template = format!("migrated_{}", migrations_digest());
            ensure_template(connection, &template).await?;
            // Copying the files took half the time of copying their pages through the log, as long as little else is dirty.
            run(connection, format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")).await
        }
    }
}

/// Database names cannot be bound; ours consist of letters and digits.
async fn run(connection: &mut PgConnection, statement: String) -> sqlx::Result<()> {
    connection.execute(AssertSqlSafe(statement)).await.map(drop)
}

async fn exists(connection: &mut PgConnection, name: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)")
        .bind(name)
        .fetch_one(connection)
        .await
}

/// Returns the number of sessions in a database that wait for a lock of another.
pub(super) async fn lock_waiters(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.expect("PostgreSQL can be reached");
    sqlx::query_scalar(
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    .fetch_one(&mut connection)
    .await
    .expect("PostgreSQL lists its sessions")
}

/// Creates the template unless it exists: once, by the first process. It is migrated under another name, so that a partial
/// one is never mistaken for it, and then closed to connections, because a connected database cannot be copied.
async fn ensure_template(connection: &mut PgConnection, template: &str) -> sqlx::Result<()> {
    if exists(connection, template).await? {
        return Ok(());
    }
    sqlx::query("SELECT pg_advisory_lock($1)").bind(MAKING_THE_TEMPLATE).execute(&mut *connection).await?;
    if !exists(connection, template).await? {
        let draft = format!("{template}_draft");
        run(connection, format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)")).await?;
        run(connection, format!("CREATE DATABASE {draft}")).await?;
        let store = Store::open(&Location::Postgres(url(&draft)), 1).await.expect("a fresh database opens");
        store.close().await;
        run(connection, format!("ALTER DATABASE {draft} ALLOW_CONNECTIONS false")).await?;
        run(connection, format!("ALTER DATABASE {draft} RENAME TO {template}")).await?;
    }
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(MAKING_THE_TEMPLATE).execute(connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn has_tables(name: &str) -> bool {
        let mut connection = PgConnection::connect(&url(name)).await.unwrap();
        sqlx::query_scalar("SELECT to_regclass('tenants') IS NOT NULL")
            .fetch_one(&mut connection)
            .await
            .unwrap()
    }

    async fn connect() -> PgConnection {
        PgConnection::connect(&server()).await.unwrap()
    }

    fn fresh_name() -> String {
        format!("test_{}", muster_ids::Env::system().uuid().simple())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_template_is_made_once_however_many_ask_at_once() {
        let template = fresh_name();
        let asked = (0..8).map(|_| {
            let template = template.clone();
            tokio::spawn(async move { ensure_template(&mut connect().await, &template).await })
        });
        for result in futures::future::join_all(asked).await {
            result.unwrap().unwrap();
        }
        let mut connection = connect().await;
        assert!(exists(&mut connection, &template).await.unwrap());
        assert!(!exists(&mut connection, &format!("{template}_draft")).await.unwrap());
        run(&mut connection, format!("DROP DATABASE {template}")).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_template_that_was_left_half_made_is_made_again() {
        let (template, copy) = (fresh_name(), fresh_name());
        let mut connection = connect().await;
        run(&mut connection, format!("CREATE DATABASE {template}_draft")).await.unwrap();
        ensure_template(&mut connection, &template).await.unwrap();
        run(&mut connection, format!("CREATE DATABASE {copy} TEMPLATE {template}")).await.unwrap();
        assert!(has_tables(&copy).await);
        for name in [template, copy] {
            run(&mut connection, format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_comes_with_its_tables_unless_it_is_asked_for_empty() {
        for (database, tables) in
            [(crate::Database::postgres(), true), (crate::Database::postgres_empty(), false)]
        {
            let Location::Postgres(url) = &database.location else { unreachable!("it is PostgreSQL's") };
            let name = url.rsplit_once('/').unwrap().1.to_owned();
            assert_eq!(has_tables(&name).await, tables);
            drop(database);
            assert!(!exists(&mut connect().await, &name).await.unwrap(), "it is gone with its owner");
        }
    }
}
