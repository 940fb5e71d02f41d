//! Secrets: a project's own, for its apps, and what the platform issues to what runs.

use jiff::Timestamp;
use muster_ids::{CellId, InstanceId, ProjectId, RepositoryId, RuntimeSecretId, SecretId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Removed;
use crate::{Operation, shape};

/// A project's own secret. Its content is told to nobody but to cells that name it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// Its id.
    pub id: SecretId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// The registry that it is a credential for: `artifact publish` may have it sent there, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub registry: Option<String>,
    /// How often its content was set. A cell has the content of the moment in which it was made.
    pub revision: i64,
    /// How long the content is, in bytes.
    pub size: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its content was last set.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// How a content is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As it is.
    #[default]
    Text,
    /// In base64, for what is no text.
    Base64,
}

/// A secret to be kept.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretCreate {
    /// Its name, unique in the project.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// Its content. It never comes back.
    #[schema(min_length = 1, max_length = 131072, write_only)]
    pub value: String,
    /// How that is written.
    pub encoding: Option<Encoding>,
    /// The registry that it is a credential (`user:password`) for, as `host` or `host:port`; for no registry if absent.
    #[schema(max_length = 255)]
    pub registry: Option<String>,
}

/// Another content.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRotate {
    /// Its content. It never comes back.
    #[schema(min_length = 1, max_length = 131072, write_only)]
    pub value: String,
    /// How that is written.
    pub encoding: Option<Encoding>,
}

/// Which secrets to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

page! {
    /// A page of secrets.
    SecretPage of Secret
}

/// What a runtime secret is for: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To read one repository of the registry, for an hour at the most.
    ArtifactPull,
    /// What members share to join each other.
    ClusterBootstrap,
}

/// Material that the platform issued for a stated purpose.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RuntimeSecret {
    /// Its id: cells name it by this.
    pub id: RuntimeSecretId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// What for.
    pub purpose: Purpose,
    /// What it is called, where it was given a name.
    pub name: String,
    /// The repository that it reads.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repository_id: Option<RepositoryId>,
    /// The cell that it was issued to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cell_id: Option<CellId>,
    /// Which incarnation of that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub incarnation: Option<i64>,
    /// The instance that it was issued to: it ends with that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance_id: Option<InstanceId>,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, or its cell or its instance went.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_at: Option<Timestamp>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
    /// The material, in the one answer that shows it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
    /// True in a replayed answer: the material was in the first one and is not shown again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub secret_shown_once: Option<bool>,
}

/// Material to be issued.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretIssue {
    /// What for.
    pub purpose: Purpose,
    /// What to call it, for lists.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// For `artifact_pull`: the repository.
    #[schema(max_length = 200)]
    pub repository: Option<String>,
    /// For `artifact_pull`: the cell that it is for, by id or name. It ends with that incarnation of it.
    #[schema(max_length = 100)]
    pub cell: Option<String>,
    /// For `cluster_bootstrap`: the instance whose members share it, by id. It ends with the instance; only the account that
    /// operates the instance may say this.
    pub instance: Option<InstanceId>,
    /// For `cluster_bootstrap`: how many random bytes; 32 if this is not said.
    #[schema(minimum = 16, maximum = 4096)]
    pub bytes: Option<i64>,
}

/// Which runtime secrets to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// For this purpose only.
    pub purpose: Option<Purpose>,
}

page! {
    /// A page of runtime secrets.
    RuntimeSecretPage of RuntimeSecret
}

/// Material that is to be used no more.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuntimeSecretRevoke {
    /// Why, for the record.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("secret_create", "/v1/projects/{project}/secrets", shape::<SecretCreate>(), shape::<Secret>())
        .needs("secret.create")
        .summary("Keep a secret for a project's apps")
        .description("It is sealed before it is written, told to no person, and given to cells that name it as a file in memory."),
    Operation::read("secret_list", "/v1/projects/{project}/secrets", shape::<SecretPage>())
        .needs("secret.list")
        .query(shape::<SecretListQuery>())
        .summary("List a project's secrets, without their contents"),
    Operation::read("secret_get", "/v1/projects/{project}/secrets/{secret}", shape::<Secret>())
        .needs("secret.get")
        .summary("Show a secret, without its content"),
    Operation::act("secret_rotate", "/v1/projects/{project}/secrets/{secret}/rotate", shape::<SecretRotate>(), shape::<Secret>())
        .needs("secret.rotate")
        .summary("Give a secret another content")
        .description("Cells that are made from then on have it; those that run keep what they were given until they are made anew."),
    Operation::delete("secret_delete", "/v1/projects/{project}/secrets/{secret}", shape::<Removed>())
        .needs("secret.delete")
        .summary("Remove a secret")
        .description("Refused while a cell that lives names it."),
    Operation::create(
        "runtime_secret_issue",
        "/v1/projects/{project}/runtime-secrets",
        shape::<RuntimeSecretIssue>(),
        shape::<RuntimeSecret>(),
    )
    .needs("runtime_secret.issue")
    .summary("Issue material for a purpose")
    .description("For service accounts alone, and only for purposes that their allow list names: `runtime_secret.artifact_pull`, `runtime_secret.cluster_bootstrap`."),
    Operation::read("runtime_secret_list", "/v1/projects/{project}/runtime-secrets", shape::<RuntimeSecretPage>())
        .needs("runtime_secret.list")
        .query(shape::<RuntimeSecretListQuery>())
        .summary("List issued material, without its contents"),
    Operation::read(
        "runtime_secret_get",
        "/v1/projects/{project}/runtime-secrets/{runtime_secret}",
        shape::<RuntimeSecret>(),
    )
    .needs("runtime_secret.get")
    .summary("Show issued material, without its content"),
    Operation::act(
        "runtime_secret_revoke",
        "/v1/projects/{project}/runtime-secrets/{runtime_secret}/revoke",
        shape::<RuntimeSecretRevoke>(),
        shape::<RuntimeSecret>(),
    )
    .needs("runtime_secret.revoke")
    .summary("Revoke issued material"),
];
