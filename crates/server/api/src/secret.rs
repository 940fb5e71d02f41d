//! Secrets: a project's own, for its apps, and runtime secrets issued by the platform.

use jiff::Timestamp;
use muster_ids::{CellId, InstanceId, ProjectId, RepositoryId, RuntimeSecretId, TenantId};
pub use muster_model::secret::ProjectSecret as Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Removed;
use crate::{Endpoint, shape};

pub use muster_model::secret::Purpose;

/// Encoding of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Plain text.
    #[default]
    Text,
    /// Base64, for binary values.
    Base64,
}

/// A secret to store.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretCreate {
    /// Its name, unique in the project.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// The value. It is write-only.
    #[schema(min_length = 1, max_length = 131072, write_only)]
    pub value: String,
    /// Encoding of the value.
    pub encoding: Option<Encoding>,
    /// Registry that it is a credential (`user:password`) for, as `host` or `host:port`; absent: none.
    #[schema(max_length = 255)]
    pub registry: Option<String>,
}

/// A new value.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRotate {
    /// The value. It is write-only.
    #[schema(min_length = 1, max_length = 131072, write_only)]
    pub value: String,
    /// Encoding of the value.
    pub encoding: Option<Encoding>,
}

/// Filters for listing secrets.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of secrets.
    SecretPage of Secret
}

/// A secret issued by the platform for a stated purpose.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RuntimeSecret {
    /// Its id, which cells reference it by.
    pub id: RuntimeSecretId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Purpose.
    pub purpose: Purpose,
    /// Its name, if it was given one.
    pub name: String,
    /// Repository that it can read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repository_id: Option<RepositoryId>,
    /// Cell that it was issued to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cell_id: Option<CellId>,
    /// Incarnation of that cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub incarnation: Option<i64>,
    /// Instance that it was issued to, and ends with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_id: Option<InstanceId>,
    /// Expiry time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
    /// Time it was revoked, or its cell or instance was removed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<Timestamp>,
    /// Time of issue.
    pub created_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
    /// The value; only in the first response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
    /// True in a replayed response: the value was only in the first one and is not shown again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub secret_shown_once: Option<bool>,
}

/// A runtime secret to issue.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretIssue {
    /// Purpose.
    pub purpose: Purpose,
    /// Its name in lists.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// For `artifact_pull`: the repository.
    #[schema(max_length = 200)]
    pub repository: Option<String>,
    /// For `artifact_pull`: the cell, by id or name. The secret ends with the cell's current incarnation.
    #[schema(max_length = 100)]
    pub cell: Option<String>,
    /// For `cluster_bootstrap`: the instance with the members that share it, by id. It ends with the instance; only the
    /// account that operates the instance may set this.
    pub instance: Option<InstanceId>,
    /// For `cluster_bootstrap`: number of random bytes; default: 32.
    #[schema(minimum = 16, maximum = 4096)]
    pub bytes: Option<i64>,
}

/// Filters for listing runtime secrets.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those for this purpose.
    pub purpose: Option<Purpose>,
}

page! {
    /// A page of runtime secrets.
    RuntimeSecretPage of RuntimeSecret
}

/// A revocation.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretRevoke {
    /// Reason, for the audit log.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("secret_create", "/v1/projects/{project}/secrets", shape::<SecretCreate>(), shape::<Secret>())
        .needs("secret.create")
        .summary("Create a secret for a project's apps")
        .description("It is sealed before it is written, never shown again, and delivered to cells that name it as a file in memory."),
    Endpoint::read("secret_list", "/v1/projects/{project}/secrets", shape::<SecretPage>())
        .needs("secret.list")
        .query(shape::<SecretListQuery>())
        .summary("List a project's secrets, without their contents"),
    Endpoint::read("secret_get", "/v1/projects/{project}/secrets/{secret}", shape::<Secret>())
        .needs("secret.get")
        .summary("Show a secret, without its content"),
    Endpoint::act("secret_rotate", "/v1/projects/{project}/secrets/{secret}/rotate", shape::<SecretRotate>(), shape::<Secret>())
        .needs("secret.rotate")
        .summary("Rotate a secret")
        .description("Cells created from then on get the new content; running cells keep the old one until they restart."),
    Endpoint::delete("secret_delete", "/v1/projects/{project}/secrets/{secret}", shape::<Removed>())
        .needs("secret.delete")
        .summary("Remove a secret")
        .description("Refused while a live cell names it."),
    Endpoint::create(
        "runtime_secret_issue",
        "/v1/projects/{project}/runtime-secrets",
        shape::<RuntimeSecretIssue>(),
        shape::<RuntimeSecret>(),
    )
    .needs("runtime_secret.issue")
    .summary("Issue a runtime secret for a purpose")
    .description("Only for service accounts, and only for purposes in their allow list: `runtime_secret.artifact_pull`, `runtime_secret.cluster_bootstrap`."),
    Endpoint::read("runtime_secret_list", "/v1/projects/{project}/runtime-secrets", shape::<RuntimeSecretPage>())
        .needs("runtime_secret.list")
        .query(shape::<RuntimeSecretListQuery>())
        .summary("List runtime secrets, without their contents"),
    Endpoint::read(
        "runtime_secret_get",
        "/v1/projects/{project}/runtime-secrets/{runtime_secret}",
        shape::<RuntimeSecret>(),
    )
    .needs("runtime_secret.get")
    .summary("Show a runtime secret, without its content"),
    Endpoint::act(
        "runtime_secret_revoke",
        "/v1/projects/{project}/runtime-secrets/{runtime_secret}/revoke",
        shape::<RuntimeSecretRevoke>(),
        shape::<RuntimeSecret>(),
    )
    .needs("runtime_secret.revoke")
    .summary("Revoke a runtime secret"),
];
