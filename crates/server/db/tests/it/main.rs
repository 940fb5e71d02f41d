//! The store on both databases: every function, every statement, the schema, faults, and concurrency.

/// Defines two tests per body, so that a failure names its database. `on_both![a, b]` passes each body an open store;
/// `on_both![databases: a, b]` passes the empty database, for tests about opening it.
macro_rules! on_both {
    (databases: $($body:ident),* $(,)?) => {$(
        mod $body {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                super::$body(&muster_testkit::Database::sqlite_empty()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                super::$body(&muster_testkit::Database::postgres_empty()).await;
            }
        }
    )*};
    ($($body:ident),* $(,)?) => {$(
        mod $body {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                let database = muster_testkit::Database::sqlite();
                super::$body(database.open().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                let database = muster_testkit::Database::postgres();
                super::$body(database.open().await).await;
            }
        }
    )*};
}

mod concurrency;
mod conformance;
mod faults;
mod fleet_races;
mod made;
mod plans;
mod schema;
mod sealer;
mod statements;
mod writer;
