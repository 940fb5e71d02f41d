//! Publisher keys, whose signatures count in a project, and the rules for what nobody signed.

use jiff::Timestamp;
use muster_ids::{KeyId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::artifact::ArtifactState;
use crate::shape::page;
use crate::{Operation, shape};

/// A publisher's public key.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// The key, as PEM.
    pub public_key: String,
    /// `SHA256:` and the hexadecimal digest of the key.
    pub fingerprint: String,
    /// `ecdsa-p256`, `ecdsa-p384`, `ed25519` or `rsa`.
    pub algorithm: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// Since when its signatures count no more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<Timestamp>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_reason: Option<String>,
    /// For `If-Match`.
    pub version: i64,
}

/// A key to be trusted.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCreate {
    /// Its name, unique in the project.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// The public key, as PEM: what cosign writes to `cosign.pub`.
    #[schema(max_length = 8192)]
    pub public_key: String,
}

/// A key that counts no more.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRevoke {
    /// Why, for the record.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
}

/// Which keys to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of keys.
    KeyPage of Key
}

/// What a project demands of artifacts before they may be used.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TrustPolicy {
    /// The project.
    pub project_id: ProjectId,
    /// How far an artifact may go that nobody signed: `draft`, `staged`, `canary` or `active`.
    pub unsigned_up_to: ArtifactState,
    /// Whether staging needs a smoke test: a cell of the very digest that was seen running.
    pub smoke_to_stage: bool,
    /// How long an artifact stays deprecated before it can be retired.
    pub grace_hours: i64,
    /// Raised whenever the keys or the rules change; verdicts count for one edition.
    pub policy: i64,
    /// For `If-Match`.
    pub version: i64,
}

/// Rules to be set. What is not named stays as it is.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicySet {
    /// How far an artifact may go that nobody signed.
    pub unsigned_up_to: Option<ArtifactState>,
    /// Whether staging needs a smoke test.
    pub smoke_to_stage: Option<bool>,
    /// How long an artifact stays deprecated before it can be retired.
    #[schema(minimum = 0, maximum = 87600)]
    pub grace_hours: Option<i64>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("key_create", "/v1/projects/{project}/keys", shape::<KeyCreate>(), shape::<Key>())
        .needs("key.create")
        .summary("Trust a publisher's key: signatures by it count in the project"),
    Operation::read("key_list", "/v1/projects/{project}/keys", shape::<KeyPage>())
        .needs("key.list")
        .query(shape::<KeyListQuery>())
        .summary("List the keys that a project trusts or trusted"),
    Operation::read("key_get", "/v1/projects/{project}/keys/{key}", shape::<Key>())
        .needs("key.get")
        .summary("Show a publisher's key"),
    Operation::act(
        "key_revoke",
        "/v1/projects/{project}/keys/{key}/revoke",
        shape::<KeyRevoke>(),
        shape::<Key>(),
    )
    .needs("key.revoke")
    .summary("Trust a key no more")
    .description("From then on nothing new starts that only this key signed. What runs goes on."),
    Operation::read("trust_policy_get", "/v1/projects/{project}/trust-policy", shape::<TrustPolicy>())
        .needs("trust_policy.get")
        .summary("Show what a project demands of artifacts"),
    Operation::update(
        "trust_policy_set",
        "/v1/projects/{project}/trust-policy",
        shape::<TrustPolicySet>(),
        shape::<TrustPolicy>(),
    )
    .needs("trust_policy.set")
    .summary("Change what a project demands of artifacts"),
];
