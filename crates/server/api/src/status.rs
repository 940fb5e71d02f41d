//! The platform at one look.

use jiff::Timestamp;
use muster_ids::ReplicaId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Operation, shape};

/// A server that shares the database.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// Its id; a new one at every start.
    pub id: ReplicaId,
    /// Where it listens.
    pub address: String,
    /// Its version.
    pub version: String,
    /// Since when it runs.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is in order.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
}

/// The platform at one look.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The version of the server that answered.
    pub version: String,
    /// The version of the contract.
    pub api_version: String,
    /// `sqlite` or `postgres`.
    pub database: String,
    /// The newest migration that was applied.
    pub schema_version: i64,
    /// The server's clock.
    pub now: Timestamp,
    /// Whether every check is in order.
    pub healthy: bool,
    /// The checks.
    pub checks: Vec<Check>,
    /// The servers that share the database; only operators see them.
    pub replicas: Vec<Replica>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[Operation::read("status_get", "/v1/status", shape::<Status>())
    .summary("Show versions, health and replicas")];
