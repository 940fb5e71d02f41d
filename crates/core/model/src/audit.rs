//! Audit entries and the chain that binds them.
//!
//! An entry is fixed as text when it is written, and that very text is hashed: no reader has to agree with us about
//! JSON. Each hash covers the one before, the number and the text, so that a changed, missing or moved entry breaks
//! the chain at its place. What a chain alone cannot show is that the *whole* of it was rewritten; whoever fears that
//! keeps a head (`audit head`) elsewhere and compares.

use jiff::Timestamp;
use muster_ids::{AuditId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Scope;

/// The hash before the first entry of a chain.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was carried out, or accepted as an operation.
    Succeeded,
    /// The actor may do such things, but not this one now.
    Refused,
    /// The actor may not.
    Denied,
    /// It was accepted as an operation, which failed.
    Failed,
}

/// Who asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// `user`, `service_account`, `platform`.
    pub kind: String,
    /// The actor's id.
    pub id: String,
    /// Its name at the time.
    pub name: String,
}

/// What was acted on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The noun.
    pub kind: String,
    /// Its id, or the words of the request where nothing was found.
    pub id: String,
    /// Its name, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One line of the audit: who asked for what, with what result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What, as `noun.verb`.
    pub action: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The problem's code, where it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// On what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// In which tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// In which project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The thread through request, rows, events and logs.
    pub correlation_id: String,
    /// How many times, for refusals that were counted together.
    pub count: i64,
    /// What changed, without secrets.
    pub detail: Value,
}

impl Entry {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::from_columns(self.tenant_id, self.project_id)
    }
}

/// The hash of an entry: SHA-256 over the previous hash, the number and the text, a newline after each of the first two.
pub fn chain_hash(previous: &str, sequence: i64, entry_text: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(previous.as_bytes());
    hasher.update(b"\n");
    hasher.update(sequence.to_string().as_bytes());
    hasher.update(b"\n");
    hasher.update(entry_text.as_bytes());
    crate::hex::encode(&hasher.finalize())
}

/// The text that is signed for a head. The first line keeps the signature from meaning anything else.
pub fn head_statement(chain: &str, sequence: i64, hash: &str, at: Timestamp) -> String {
    format!("muster-audit-head v1\n{chain}\n{sequence}\n{hash}\n{at}\n")
}

/// An entry in its place.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// The chain: a tenant's id, or `platform`.
    pub chain: String,
    /// Its number in the chain, from 1, without gaps.
    pub sequence: i64,
    /// The hash of the entry before.
    pub previous_hash: String,
    /// Its own.
    pub hash: String,
    /// The text that was hashed.
    pub entry_text: String,
}

/// The end of a chain as far as it is sealed.
#[derive(Debug, Clone)]
pub struct Head {
    /// The chain.
    pub chain: String,
    /// The last number.
    pub sequence: i64,
    /// Its hash.
    pub hash: String,
    /// The last number that retention removed; the chain in the store starts after it.
    pub pruned_sequence: i64,
    /// That entry's hash.
    pub pruned_hash: String,
}
