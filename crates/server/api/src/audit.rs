//! The audit.

use jiff::Timestamp;
use muster_ids::{AuditId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::Object;
use crate::{Answer, Operation, shape};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
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
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditActor {
    /// `user`, `service_account` or `platform`.
    pub kind: String,
    /// The actor's id.
    pub id: String,
    /// Its name at the time.
    pub name: String,
}

/// What was acted on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditTarget {
    /// The noun.
    pub kind: String,
    /// Its id, or the words of the request where nothing was found.
    pub id: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What is hashed: who asked for what, with what result.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: AuditActor,
    /// What, as `noun.verb`.
    pub action: String,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// The problem's code, where it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// On what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<AuditTarget>,
    /// In which tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// In which project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The thread through request, events and logs.
    pub correlation_id: String,
    /// How many times, for refusals that were counted together.
    pub count: i64,
    /// What changed, without secrets.
    #[schema(value_type = Object)]
    pub detail: Object,
}

/// A record in its place of the chain.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// The chain: a tenant's id, or `platform`.
    pub chain: String,
    /// Its number, from 1, without gaps.
    pub sequence: i64,
    /// The hash of the entry before.
    pub previous_hash: String,
    /// SHA-256 over the previous hash, the number and the record's text.
    pub hash: String,
    /// The record.
    pub record: AuditRecord,
}

/// The end of a chain as far as it is sealed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditHead {
    /// The chain.
    pub chain: String,
    /// The last number.
    pub sequence: i64,
    /// Its hash. Keep it elsewhere, and a later export can be checked against it.
    pub hash: String,
    /// The last number that retention removed.
    pub pruned_sequence: i64,
    /// That entry's hash, which the first kept entry builds on.
    pub pruned_hash: String,
    /// When the head was signed: now.
    pub signed_at: Timestamp,
    /// The fingerprint of the key that signed it, which is not in the database.
    pub key_id: String,
    /// The signature over chain, number, hash and time, base 64.
    pub signature: String,
}

/// Which entries.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditListQuery {
    /// A tenant's chain, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Only a project's entries, by name or id. With neither, the platform's chain.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Only entries after this number.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
    /// Only this action, as `noun.verb`.
    #[schema(max_length = 100)]
    pub action: Option<String>,
    /// Only this actor, by id.
    #[schema(max_length = 128)]
    pub actor: Option<String>,
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
}

/// Which chain.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditChainQuery {
    /// A tenant's chain, by slug or id; the platform's if not given.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
}

/// Some entries.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// In order.
    pub items: Vec<AuditEntry>,
    /// Give it as `after` to go on.
    pub next_after: i64,
    /// The last number of the chain that is sealed.
    pub sealed_up_to: i64,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::read("audit_list", "/v1/audit", shape::<AuditPage>())
        .needs("audit.list")
        .query(shape::<AuditListQuery>())
        .summary("List who asked for what, with what result"),
    Operation::stream("audit_export", "/v1/audit/export", Answer::JsonLines(shape::<AuditEntry>()))
        .needs("audit.export")
        .query(shape::<AuditChainQuery>())
        .summary("Download a whole chain, to be verified offline"),
    Operation::read("audit_head", "/v1/audit/head", shape::<AuditHead>())
        .needs("audit.head")
        .query(shape::<AuditChainQuery>())
        .summary("Show the end of a chain"),
];
