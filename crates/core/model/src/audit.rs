//! Audit entries and the hash chain that binds them.
//!
//! An entry is fixed as text when it is written, and that exact text is hashed: readers need no canonical JSON. Each hash
//! covers the previous hash, the number and the text, so a changed, missing or moved entry breaks the chain at its position.
//! A chain alone cannot reveal that *all* of it was rewritten; to detect that, keep a head (`audit head`) elsewhere and
//! compare.

use jiff::Timestamp;
use muster_ids::{AuditId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::Scope;

/// Hash before the first entry of a chain.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditOutcome)]
pub enum Outcome {
    /// It was executed, or accepted as an operation.
    Succeeded,
    /// The actor has the permission, but the command is not possible now.
    Refused,
    /// The actor lacks the permission.
    Denied,
    /// It was accepted as an operation, which failed.
    Failed,
}

/// The actor of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditActor)]
pub struct Actor {
    /// `user`, `service_account` or `platform`.
    pub kind: String,
    /// The actor's id.
    pub id: String,
    /// Its name at the time.
    pub name: String,
}

impl Actor {
    /// Returns the platform as an actor, and which part of it acts.
    pub fn platform(part: impl Into<String>) -> Self {
        Self { kind: "platform".to_owned(), id: "platform".to_owned(), name: part.into() }
    }
}

/// The target of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditTarget)]
pub struct Target {
    /// The noun.
    pub kind: String,
    /// Its id, or the reference from the request if it was not found.
    pub id: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The hashed part of an entry: actor, action, target and outcome.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditRecord)]
pub struct Entry {
    /// Its id.
    pub id: AuditId,
    /// Time.
    pub at: Timestamp,
    /// The actor.
    pub actor: Actor,
    /// The action, as `noun.verb`.
    pub action: String,
    /// Outcome.
    pub outcome: Outcome,
    /// The problem's code, unless it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Tenant, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Project, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Correlation id, shared with the request, events and logs.
    pub correlation_id: String,
    /// Number of occurrences, for aggregated refusals.
    pub count: i64,
    /// Details of the change, without secrets.
    #[schema(value_type = Object)]
    pub detail: Value,
}

impl Entry {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::from_columns(self.tenant_id, self.project_id)
    }
}

/// Returns the hash of an entry: SHA-256 over the previous hash, the number and the text, with a newline after each of the
/// first two.
pub fn chain_hash(previous: &str, sequence: i64, entry_text: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(previous.as_bytes());
    hasher.update(b"\n");
    hasher.update(sequence.to_string().as_bytes());
    hasher.update(b"\n");
    hasher.update(entry_text.as_bytes());
    crate::hex::encode(&hasher.finalize())
}

/// Returns the signed text of a head. The first line binds the signature to this purpose.
pub fn head_statement(chain: &str, sequence: i64, hash: &str, at: Timestamp) -> String {
    format!("muster-audit-head v1\n{chain}\n{sequence}\n{hash}\n{at}\n")
}

/// A sealed entry.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// The chain: a tenant's id, or `platform`.
    pub chain: String,
    /// Its number in the chain, from 1, without gaps.
    pub sequence: i64,
    /// Hash of the previous entry.
    pub previous_hash: String,
    /// Its own hash.
    pub hash: String,
    /// The hashed text.
    pub entry_text: String,
}

/// The sealed end of a chain.
#[derive(Debug, Clone)]
pub struct Head {
    /// The chain.
    pub chain: String,
    /// Last sequence number.
    pub sequence: i64,
    /// Its hash.
    pub hash: String,
    /// Last sequence number removed by retention; the stored chain starts after it.
    pub pruned_sequence: i64,
    /// Hash of that entry.
    pub pruned_hash: String,
}
