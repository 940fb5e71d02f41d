//! Status of the platform.

use jiff::Timestamp;
use muster_ids::ReplicaId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Endpoint, shape};

/// A server that shares the database.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// Its id; new at every start.
    pub id: ReplicaId,
    /// Address it listens on.
    pub address: String,
    /// Its version.
    pub version: String,
    /// Start time.
    pub started_at: Timestamp,
    /// Time of its last heartbeat.
    pub seen_at: Timestamp,
}

/// A health check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Whether it passed.
    pub ok: bool,
    /// Result.
    pub detail: String,
}

/// Status of the platform.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the responding server.
    pub version: String,
    /// Version of the contract.
    pub api_version: String,
    /// `sqlite` or `postgres`.
    pub database: String,
    /// The newest applied migration.
    pub schema_version: i64,
    /// The server's clock.
    pub now: Timestamp,
    /// Whether every check passed.
    pub healthy: bool,
    /// The checks.
    pub checks: Vec<Check>,
    /// Servers that share the database; only visible to operators.
    pub replicas: Vec<Replica>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[Endpoint::read("status_get", "/v1/status", shape::<Status>())
    .summary("Show versions, health and replicas")];
