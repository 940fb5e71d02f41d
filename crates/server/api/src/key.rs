//! Publisher keys, which a project trusts signatures of, and the policy for unsigned artifacts.

use muster_ids::ProjectId;
pub use muster_model::artifact::PublisherKey as Key;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::artifact::ArtifactState;
use crate::shape::page;
use crate::{Endpoint, shape};

/// A key to trust.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCreate {
    /// Its name, unique in the project.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// The public key, as PEM: the content of `cosign.pub`.
    #[schema(max_length = 8192)]
    pub public_key: String,
}

/// A key revocation.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRevoke {
    /// Reason, for the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
}

/// Filters for listing keys.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of keys.
    KeyPage of Key
}

/// A project's requirements for artifacts before they may be used.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TrustPolicy {
    /// The project.
    pub project_id: ProjectId,
    /// Highest state an unsigned artifact may reach: `draft`, `staged`, `canary` or `active`.
    pub unsigned_up_to: ArtifactState,
    /// Whether staging requires a smoke test: a cell of the exact digest that was verified as running.
    pub smoke_to_stage: bool,
    /// Hours an artifact stays deprecated before it can be retired.
    pub grace_hours: i64,
    /// Incremented when the keys or the policy change; a verification result is valid for one revision.
    pub policy: i64,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Policy changes. Omitted fields keep their value.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicySet {
    /// Highest state an unsigned artifact may reach.
    pub unsigned_up_to: Option<ArtifactState>,
    /// Whether staging requires a smoke test.
    pub smoke_to_stage: Option<bool>,
    /// Hours an artifact stays deprecated before it can be retired.
    #[schema(minimum = 0, maximum = 87600)]
    pub grace_hours: Option<i64>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("key_create", "/v1/projects/{project}/keys", shape::<KeyCreate>(), shape::<Key>())
        .needs("key.create")
        .summary("Trust a publisher's key in a project"),
    Endpoint::read("key_list", "/v1/projects/{project}/keys", shape::<KeyPage>())
        .needs("key.list")
        .query(shape::<KeyListQuery>())
        .summary("List the keys that a project trusts or trusted"),
    Endpoint::read("key_get", "/v1/projects/{project}/keys/{key}", shape::<Key>())
        .needs("key.get")
        .summary("Show a publisher's key"),
    Endpoint::act(
        "key_revoke",
        "/v1/projects/{project}/keys/{key}/revoke",
        shape::<KeyRevoke>(),
        shape::<Key>(),
    )
    .needs("key.revoke")
    .summary("Revoke a publisher's key")
    .description("From then on, nothing signed only by this key can start. Running cells continue."),
    Endpoint::read("trust_policy_get", "/v1/projects/{project}/trust-policy", shape::<TrustPolicy>())
        .needs("trust_policy.get")
        .summary("Show a project's trust policy"),
    Endpoint::update(
        "trust_policy_set",
        "/v1/projects/{project}/trust-policy",
        shape::<TrustPolicySet>(),
        shape::<TrustPolicy>(),
    )
    .needs("trust_policy.set")
    .summary("Change a project's trust policy"),
];
