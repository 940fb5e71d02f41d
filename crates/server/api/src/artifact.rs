//! Artifacts: the content that apps consist of, by digest, and its lifecycle.

use jiff::Timestamp;
use muster_ids::{ArtifactId, CellId, KeyId, ProjectId, RepositoryId, TenantId, WitnessId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, page};
use crate::tenant::Removed;
use crate::{Endpoint, shape};

pub use muster_model::artifact::{ArtifactKind, ArtifactState, Change as ArtifactChange, Trust};

/// Result of signature verification.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    /// Trust level.
    pub trust: Trust,
    /// Reason no signature is valid: `other_key`, `revoked_key`, `wrong_digest`, `malformed` or `bad_signature`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The same in a sentence.
    pub message: String,
    /// Key of the valid signature.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key_id: Option<KeyId>,
    /// Digest of the valid signature.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<String>,
    /// Revision of the project's keys and trust policy that it was verified under.
    pub policy: i64,
    /// Verification time.
    pub checked_at: Timestamp,
}

/// An artifact: content by digest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// Its id.
    pub id: ArtifactId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// The repository it is in.
    pub repository_id: RepositoryId,
    /// That repository's name.
    pub repository: String,
    /// The digest of its manifest.
    pub digest: String,
    /// Kind of content.
    pub kind: ArtifactKind,
    /// The media type of its manifest.
    pub media_type: String,
    /// Total size in bytes.
    pub size: i64,
    /// Release line; at most one artifact per line is active.
    pub line: String,
    /// Lifecycle state.
    pub state: ArtifactState,
    /// Percentage of starts that get the canary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary_percent: Option<i64>,
    /// Result of the last signature verification.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// Evidence that a cell of this exact digest ran, if it was staged with a smoke test.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub smoke_witness_id: Option<WitnessId>,
    /// The artifact that superseded it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub superseded_by: Option<ArtifactId>,
    /// Time from which it can be retired.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retirable_at: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// Publication time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Content to publish as an artifact. A push with a tag publishes by itself; this is for everything else.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactPublish {
    /// The repository in the project.
    #[schema(max_length = 200)]
    pub repository: String,
    /// Digest or tag of a manifest in the repository; with `external`, the digest there.
    #[schema(max_length = 200)]
    pub reference: String,
    /// External registry that holds it. The manifest is read from there by digest, layers when a node first needs them.
    pub external: Option<External>,
    /// Release line; default: `main`.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub line: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// An external registry.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// Its host, with the port if not the default one: `registry.example`.
    #[schema(max_length = 255)]
    pub registry: String,
    /// The repository there.
    #[schema(max_length = 255)]
    pub repository: String,
    /// Name of the project's secret to authenticate with. It must have been created for this registry, with
    /// `user:password` as its value. Needs `secret.use`.
    #[schema(max_length = 100)]
    pub secret: Option<String>,
}

/// A promotion to staged, canary or active.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactPromote {
    /// Target state.
    pub to: ArtifactState,
    /// Reason, for the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
    /// Percentage of starts that get the canary; default: 10.
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<i64>,
    /// A cell of this exact digest that was verified as running, by id or name: the smoke test.
    #[schema(max_length = 100)]
    pub smoke_cell: Option<String>,
}

/// A demotion: canary to staged, active to deprecated, deprecated to retired.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactDemote {
    /// Target state.
    pub to: ArtifactState,
    /// Reason, for the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
}

/// Empty request body.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactVerify {}

/// Filters for listing artifacts.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// Only those in this state.
    pub state: Option<ArtifactState>,
    /// Only those in this repository.
    #[schema(max_length = 200)]
    pub repository: Option<String>,
    /// Only those with this digest.
    #[schema(max_length = 100)]
    pub digest: Option<String>,
}

page! {
    /// A page of artifacts.
    ArtifactPage of Artifact
}

/// A lint finding.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LintFinding {
    /// Whether it prevents staging.
    pub error: bool,
    /// The rule.
    pub rule: String,
    /// The finding.
    pub message: String,
    /// How to fix it.
    pub fix: String,
}

/// A signature that the registry holds for the digest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SignatureReference {
    /// Digest of the manifest that carries it.
    pub digest: String,
    /// `tag` (`sha256-….sig`) or `referrer`.
    pub by: String,
    /// Its artifact type.
    pub artifact_type: String,
}

/// A cell created from the digest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CellReference {
    /// The cell's id.
    pub id: CellId,
    /// Its name.
    pub name: String,
    /// Current state.
    pub state: String,
    /// Its incarnation.
    pub incarnation: i64,
}

/// Everything that depends on a digest, from signature to running cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArtifactReferences {
    /// The artifact.
    pub artifact: Artifact,
    /// Tags that point to it.
    pub tags: Vec<String>,
    /// Signatures of it.
    pub signatures: Vec<SignatureReference>,
    /// Indexes that include it.
    pub indexes: Vec<String>,
    /// Live cells created from it.
    pub cells: Vec<CellReference>,
    /// Artifacts that it superseded.
    pub supersedes: Vec<ArtifactId>,
    /// Lint findings.
    pub lint: Vec<LintFinding>,
    /// State changes, oldest first.
    pub changes: Vec<ArtifactChange>,
    /// Reasons it cannot be retired or deleted now, one sentence each.
    pub holds: Vec<String>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create("artifact_publish", "/v1/projects/{project}/artifacts", shape::<ArtifactPublish>(), shape::<Artifact>())
        .needs("artifact.publish")
        .summary("Publish content of a repository as an artifact")
        .description("Content pushed with a tag (`podman push`, `skopeo copy`, `muster artifact push`) is published by the push. This publishes a digest without a tag, or one of another registry."),
    Endpoint::read("artifact_list", "/v1/projects/{project}/artifacts", shape::<ArtifactPage>())
        .needs("artifact.list")
        .query(shape::<ArtifactListQuery>())
        .summary("List a project's artifacts"),
    Endpoint::read("artifact_get", "/v1/projects/{project}/artifacts/{artifact}", shape::<Artifact>())
        .needs("artifact.get")
        .summary("Show an artifact")
        .description("Name an artifact by its id, by `repository@sha256:…` or by `repository:tag`."),
    Endpoint::act("artifact_verify", "/v1/projects/{project}/artifacts/{artifact}/verify", shape::<ArtifactVerify>(), shape::<Artifact>())
        .needs("artifact.verify")
        .summary("Verify an artifact's content and signatures now")
        .description("Reads and hashes every byte, and verifies every signature of its digest in the registry with the project's keys."),
    Endpoint::act("artifact_promote", "/v1/projects/{project}/artifacts/{artifact}/promote", shape::<ArtifactPromote>(), shape::<Artifact>())
        .needs("artifact.promote")
        .summary("Promote an artifact: staged, canary, active")
        .description("Each promotion verifies its signatures. Staging lints it. An artifact that becomes active makes the active one of its line deprecated, in the same transaction."),
    Endpoint::act("artifact_demote", "/v1/projects/{project}/artifacts/{artifact}/demote", shape::<ArtifactDemote>(), shape::<Artifact>())
        .needs("artifact.demote")
        .summary("Demote an artifact: canary to staged, active to deprecated, deprecated to retired")
        .description("It can be retired when its grace period is over and nothing live was created from it."),
    Endpoint::read("artifact_references", "/v1/projects/{project}/artifacts/{artifact}/references", shape::<ArtifactReferences>())
        .needs("artifact.references")
        .summary("Show everything that depends on an artifact, from signature to running cell"),
    Endpoint::delete("artifact_delete", "/v1/projects/{project}/artifacts/{artifact}", shape::<Removed>())
        .needs("artifact.delete")
        .summary("Remove an artifact that is a draft or retired, and its content"),
];
