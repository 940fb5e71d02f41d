//! The audit log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Answer, Endpoint, shape};

pub use muster_model::audit::{
    Actor as AuditActor, Entry as AuditRecord, Outcome as AuditOutcome, Target as AuditTarget,
};

/// A record at its position in the chain.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// The chain: a tenant's id, or `platform`.
    pub chain: String,
    /// Sequence number, from 1, without gaps.
    pub sequence: i64,
    /// Hash of the previous entry.
    pub previous_hash: String,
    /// SHA-256 over the previous hash, the sequence number and the record's text.
    pub hash: String,
    /// The record.
    pub record: AuditRecord,
}

/// The head of a chain, as far as it is sealed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditHead {
    /// The chain.
    pub chain: String,
    /// Last sequence number.
    pub sequence: i64,
    /// Its hash. Store it elsewhere to verify a later export against it.
    pub hash: String,
    /// Last sequence number removed by retention.
    pub pruned_sequence: i64,
    /// Hash of that entry, which the first retained entry builds on.
    pub pruned_hash: String,
    /// Time of signing: now.
    pub signed_at: Timestamp,
    /// Fingerprint of the signing key, which is not in the database.
    pub key_id: String,
    /// Signature over chain, sequence number, hash and time, base64.
    pub signature: String,
}

/// Filters for audit entries.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditListQuery {
    /// A tenant's chain, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Only entries of this project, by name or id. With neither, the platform's chain.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Only entries after this sequence number.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
    /// Only this action, as `noun.verb`.
    #[schema(max_length = 100)]
    pub action: Option<String>,
    /// Only this actor, by id.
    #[schema(max_length = 128)]
    pub actor: Option<String>,
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
}

/// Selects a chain.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditChainQuery {
    /// A tenant's chain, by slug or id; default: the platform's.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
}

/// A page of audit entries.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// Entries, in order.
    pub items: Vec<AuditEntry>,
    /// Pass as `after` to continue.
    pub next_after: i64,
    /// Last sealed sequence number of the chain.
    pub sealed_up_to: i64,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("audit_list", "/v1/audit", shape::<AuditPage>())
        .needs("audit.list")
        .query(shape::<AuditListQuery>())
        .summary("List audit entries: actor, action and outcome"),
    Endpoint::stream("audit_export", "/v1/audit/export", Answer::JsonLines(shape::<AuditEntry>()))
        .needs("audit.export")
        .query(shape::<AuditChainQuery>())
        .summary("Download a whole audit chain, to be verified offline"),
    Endpoint::read("audit_head", "/v1/audit/head", shape::<AuditHead>())
        .needs("audit.head")
        .query(shape::<AuditChainQuery>())
        .summary("Show the end of an audit chain"),
];
