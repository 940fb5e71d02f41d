//! Artifacts: what apps are made of, by digest, and how far each may be used.

use jiff::Timestamp;
use muster_ids::{ArtifactId, CellId, KeyId, ProjectId, RepositoryId, TenantId, WitnessId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, page};
use crate::tenant::Removed;
use crate::{Operation, shape};

/// What kind of content it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// An image, or an index of images.
    Oci,
    /// Files: weights, data sets, scripts, tarballs.
    Blob,
}

/// How far it may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactState {
    /// It was published, and nothing more.
    Draft,
    /// It passed lint, trust and, where the project asks for it, a smoke test.
    Staged,
    /// It is offered to a part of what starts.
    Canary,
    /// It is what starts.
    Active,
    /// A newer one took its place: nothing new starts from it, what runs goes on, and one may roll back to it.
    Deprecated,
    /// Nothing uses it any more.
    Retired,
}

/// What is known of its signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// One of the project's keys signed it.
    Trusted,
    /// Nobody signed it.
    Unsigned,
    /// It has signatures, and none of them counts.
    Untrusted,
}

/// What was found when its signatures were looked at.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    /// In a word.
    pub trust: Trust,
    /// Why no signature counts: `other_key`, `revoked_key`, `wrong_digest`, `malformed` or `bad_signature`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The same in a sentence.
    pub says: String,
    /// Whose signature counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key_id: Option<KeyId>,
    /// The digest of the signature that counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<String>,
    /// The edition of the project's keys and rules under which it was found.
    pub policy: i64,
    /// When.
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
    /// What kind of content it is.
    pub kind: ArtifactKind,
    /// The media type of its manifest.
    pub media_type: String,
    /// Bytes of everything it is made of.
    pub size: i64,
    /// Which succession it belongs to: at most one of a line is active.
    pub line: String,
    /// How far it may be used.
    pub state: ArtifactState,
    /// To how many of a hundred starts a canary is offered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary_percent: Option<i64>,
    /// What was found of its signatures when they were last looked at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// The evidence that a cell of this very digest ran, where it was staged with one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub smoke_witness_id: Option<WitnessId>,
    /// The artifact that took its place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub superseded_by: Option<ArtifactId>,
    /// From when on it can be retired.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retirable_at: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// Content to be published as an artifact. What is pushed with a tag is published by that; this is for the rest.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactPublish {
    /// The repository in the project.
    #[schema(max_length = 200)]
    pub repository: String,
    /// The digest of a manifest that is in it, or a tag; with `external`, the digest there.
    #[schema(max_length = 200)]
    pub reference: String,
    /// Another registry that has it. It is read from there by digest, and its layers when a node first needs them.
    pub external: Option<External>,
    /// Which succession it belongs to; `main` if this is not said.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub line: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// Another registry.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// Its host, with a port where it has an uncommon one: `registry.example`.
    #[schema(max_length = 255)]
    pub registry: String,
    /// The repository there.
    #[schema(max_length = 255)]
    pub repository: String,
    /// The project's secret to read it with, by name: it was created for this registry, and its content is `user:password`.
    /// Needs `secret.use`.
    #[schema(max_length = 100)]
    pub secret: Option<String>,
}

/// A step forward: to staged, canary or active.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactPromote {
    /// To what.
    pub to: ArtifactState,
    /// Why, for the record.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
    /// To how many of a hundred starts a canary is offered; 10 if this is not said.
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<i64>,
    /// A cell of this very digest that was seen running, by id or name: the smoke test.
    #[schema(max_length = 100)]
    pub smoke_cell: Option<String>,
}

/// A step back or out: from canary to staged, from active to deprecated, from deprecated to retired.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactDemote {
    /// To what.
    pub to: ArtifactState,
    /// Why, for the record.
    #[schema(min_length = 1, max_length = 1000)]
    pub reason: String,
}

/// Nothing needs to be said.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactVerify {}

/// Which artifacts to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Only those with these labels: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
    /// In this state only.
    pub state: Option<ArtifactState>,
    /// In this repository only.
    #[schema(max_length = 200)]
    pub repository: Option<String>,
    /// With this digest only.
    #[schema(max_length = 100)]
    pub digest: Option<String>,
}

page! {
    /// A page of artifacts.
    ArtifactPage of Artifact
}

/// What lint found.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LintFinding {
    /// Whether it keeps the artifact from being staged.
    pub error: bool,
    /// Which rule.
    pub rule: String,
    /// What was found.
    pub says: String,
    /// What to do about it.
    pub fix: String,
}

/// A change of state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArtifactChange {
    /// What it was before; absent for the publishing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<ArtifactState>,
    /// What it became.
    pub after: ArtifactState,
    /// Who.
    pub actor_id: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// A signature, as far as the registry has one for the digest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SignatureReference {
    /// The digest of the manifest that carries it.
    pub digest: String,
    /// `tag` (`sha256-….sig`) or `referrer`.
    pub by: String,
    /// What kind it is.
    pub artifact_type: String,
}

/// A cell that was made from the digest.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CellReference {
    /// Which.
    pub id: CellId,
    /// Its name.
    pub name: String,
    /// What it is.
    pub state: String,
    /// Which incarnation.
    pub incarnation: i64,
}

/// Everything that hangs on a digest, from signature to running cell.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArtifactReferences {
    /// The artifact.
    pub artifact: Artifact,
    /// Tags that name it now.
    pub tags: Vec<String>,
    /// Signatures of it.
    pub signatures: Vec<SignatureReference>,
    /// Indexes that it is part of.
    pub indexes: Vec<String>,
    /// Cells that live and were made from it.
    pub cells: Vec<CellReference>,
    /// Artifacts that it took the place of.
    pub supersedes: Vec<ArtifactId>,
    /// What lint says of it.
    pub lint: Vec<LintFinding>,
    /// Its changes of state, oldest first.
    pub changes: Vec<ArtifactChange>,
    /// Why it cannot be retired or deleted now, a sentence each.
    pub holds: Vec<String>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create("artifact_publish", "/v1/projects/{project}/artifacts", shape::<ArtifactPublish>(), shape::<Artifact>())
        .needs("artifact.publish")
        .summary("Publish content of a repository as an artifact")
        .description("What is pushed with a tag (`podman push`, `skopeo copy`, `muster artifact push`) is published by that. This publishes a digest that has no tag, or one of another registry."),
    Operation::read("artifact_list", "/v1/projects/{project}/artifacts", shape::<ArtifactPage>())
        .needs("artifact.list")
        .query(shape::<ArtifactListQuery>())
        .summary("List a project's artifacts"),
    Operation::read("artifact_get", "/v1/projects/{project}/artifacts/{artifact}", shape::<Artifact>())
        .needs("artifact.get")
        .summary("Show an artifact")
        .description("An artifact is named by its id, by `repository@sha256:…` or by `repository:tag`."),
    Operation::act("artifact_verify", "/v1/projects/{project}/artifacts/{artifact}/verify", shape::<ArtifactVerify>(), shape::<Artifact>())
        .needs("artifact.verify")
        .summary("Look at an artifact's signatures now")
        .description("Every byte of it is read and hashed, and every signature that the registry has for its digest is checked against the project's keys."),
    Operation::act("artifact_promote", "/v1/projects/{project}/artifacts/{artifact}/promote", shape::<ArtifactPromote>(), shape::<Artifact>())
        .needs("artifact.promote")
        .summary("Take an artifact a step forward: staged, canary, active")
        .description("Its signatures are looked at with every step. Staging lints it. An artifact that becomes active makes the active one of its line deprecated, in the same transaction."),
    Operation::act("artifact_demote", "/v1/projects/{project}/artifacts/{artifact}/demote", shape::<ArtifactDemote>(), shape::<Artifact>())
        .needs("artifact.demote")
        .summary("Take an artifact a step back or out: canary to staged, active to deprecated, deprecated to retired")
        .description("It can be retired when its grace period is over and nothing that lives was made from it."),
    Operation::read("artifact_references", "/v1/projects/{project}/artifacts/{artifact}/references", shape::<ArtifactReferences>())
        .needs("artifact.references")
        .summary("Show everything that hangs on an artifact, from signature to running cell"),
    Operation::delete("artifact_delete", "/v1/projects/{project}/artifacts/{artifact}", shape::<Removed>())
        .needs("artifact.delete")
        .summary("Remove an artifact that is a draft or retired, and its content"),
];
