//! The database layer: the only crate that contains SQL.
//!
//! One `Store` over two databases. Reads are methods of `Store`; writes are methods of `Tx`, so that related writes commit
//! together. Each file is named after an entity and declares its statements at the top; those of a noun that is declared by
//! `record!` are in `record.rs`, for all of them.

mod error;
#[cfg_attr(not(feature = "test-api"), path = "faultless.rs")]
mod fault;
mod migrations;
mod open;
mod sql;
mod tx;
mod writer;

mod adapter;
mod adapter_step;
mod allocation;
mod app;
mod app_version;
mod artifact;
mod audit;
mod cell;
mod enrolment;
mod entitlement;
mod event;
mod idempotency;
mod instance;
mod instance_history;
mod key;
mod lease;
mod manifest;
mod member;
#[cfg_attr(not(feature = "test-api"), path = "unmetered.rs")]
mod meter;
mod network;
mod node;
mod observation;
mod operation;
mod presence;
mod project;
mod quota;
mod record;
mod refusal;
mod replica;
mod repository;
mod role_binding;
mod runtime_secret;
mod seal;
mod sealing_key;
mod secret;
mod service_account;
mod slot;
mod ssh_key;
mod stream;
mod sweep;
mod task;
mod tenant;
#[cfg(feature = "test-api")]
mod test_api;
mod token;
mod user;
mod webhook;
mod witness;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{PgPool, SqlitePool};

pub use adapter::FoundAdapter;
pub use adapter_step::{AdapterStepFilter, StepEnd};
pub use allocation::AllocationFilter;
pub use app::{AppHolds, FoundApp};
pub use app_version::{AppVersionUse, ArtifactRelease, FoundVersion};
pub use artifact::{ArtifactCell, ArtifactFilter};
pub use audit::AuditFilter;
pub use cell::CellFilter;
pub use enrolment::{Authority, Enrolment};
pub use entitlement::FoundEntitlement;
pub use error::StoreError;
pub use event::EventFilter;
#[cfg(feature = "test-api")]
pub use fault::{Fault, Faults};
pub use idempotency::{CommandRecord, Replay};
pub use instance::InstanceFilter;
pub use lease::Lease;
pub use manifest::{ManifestContent, REFERRERS_BYTES, Referrer};
pub use member::{MemberCount, MemberFilter, MemberPlace};
#[cfg(feature = "test-api")]
pub use meter::Meter;
#[cfg(feature = "test-api")]
pub use migrations::migrations_digest;
pub use migrations::newest_migration;
pub use network::NetworkNeighbour;
pub use node::{Joining, KeyHash, NodeCount, NodeHeartbeat, NodeStanding};
pub use observation::{CellReport, HealthCounts, StaleCounts};
pub use open::Location;
pub use operation::{OperationChild, OperationFilter};
pub use presence::Presence;
pub use project::ProjectsOf;
pub use quota::Quota;
pub use record::statements as record_statements;
pub use replica::Replica;
pub use repository::{BlobFile, BlobPlace, ExternalSource, PullRight, TagRow};
pub use seal::{OutboxRow, SealBatch};
pub use sealing_key::SealingKey;
#[cfg(feature = "test-api")]
pub use slot::FitCount;
pub use slot::{Candidate, Hold, LargestNodes, Silent};
pub use sql::Sql;
pub use ssh_key::{KEYS_OF_PROJECT, LOGINS_OF_PROJECT, People, PeopleCell, ProjectPeople};
pub use stream::Stream;
pub use task::TaskReport;
#[cfg(feature = "test-api")]
pub use test_api::statements;
pub use token::Credential;
pub use tx::Tx;
pub use webhook::Delivery;

use futures::future::BoxFuture;
use sql::{Row, Value, bind_pg, bind_sqlite};

/// The result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A page of a list: start position and size.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Start after this id; the nil UUID for the first page.
    pub after: uuid::Uuid,
    /// Maximum number of rows.
    pub size: i64,
}

/// An open database.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    faults: Arc<fault::Faults>,
    meter: Arc<meter::Meter>,
    /// Whether the last write failed because the database's disk is full.
    full: Arc<AtomicBool>,
    location: Location,
}

#[derive(Clone)]
enum Backend {
    Pg(PgPool),
    Sqlite { read: SqlitePool, writer: Arc<writer::Writer> },
}

impl Store {
    /// Returns `postgres` or `sqlite`.
    pub fn kind(&self) -> &'static str {
        match self.backend {
            Backend::Pg(_) => "postgres",
            Backend::Sqlite { .. } => "sqlite",
        }
    }

    /// Returns the location of the database.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Opens a transaction that may write.
    pub async fn begin(&self) -> Result<Tx> {
        let inner = match &self.backend {
            Backend::Pg(pool) => tx::Inner::Pg(tx::PgTx::new(pool.clone())),
            Backend::Sqlite { writer, .. } => tx::Inner::Sqlite(writer.begin().await?, None),
        };
        Ok(Tx::new(inner, self.faults.clone(), self.meter.clone(), self.full.clone()))
    }

    /// Reports whether the last write failed because the database's disk is full, of this store and since it was opened.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Closes all connections.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Pg(pool) => pool.close().await,
            Backend::Sqlite { read, writer } => {
                read.close().await;
                writer.close().await;
            }
        }
    }

    /// Boxed for the same reason as the statements of a transaction.
    fn fetch_all<'a>(&'a self, sql: &'a Sql, args: Vec<Value>) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            Ok(match &self.backend {
                Backend::Pg(pool) => {
                    bind_pg(sql, args).fetch_all(pool).await?.into_iter().map(Row::Pg).collect()
                }
                Backend::Sqlite { read, .. } => {
                    bind_sqlite(sql, args).fetch_all(read).await?.into_iter().map(Row::Sqlite).collect()
                }
            })
        })
    }

    async fn fetch_optional(&self, sql: &Sql, args: Vec<Value>) -> Result<Option<Row>> {
        Ok(self.fetch_all(sql, args).await?.into_iter().next())
    }
}
