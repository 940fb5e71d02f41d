//! Artifacts: content by digest, their promotion states, and the rules for changing those.

pub(crate) mod promotion;
#[cfg(test)]
mod promotion_tests;

use jiff::Timestamp;
use muster_ids::{ArtifactId, KeyId, ProjectId, RepositoryId, TenantId, WitnessId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::record::record;
use crate::state::states;
use crate::{Labels, Scope};

pub use promotion::{Facts, Moves, Refusal, Step, plan, retirable_at};

states! {
    /// Lifecycle state of an artifact.
    ArtifactState {
        /// It was published.
        Draft = "draft" => [Staged, Retired];
        /// It passed lint, trust and, if the project requires it, a smoke test.
        Staged = "staged" => [Canary, Retired];
        /// It is offered to a percentage of starts.
        Canary = "canary" => [Active, Staged];
        /// It is the default for new starts.
        Active = "active" => [Deprecated];
        /// A newer one superseded it: nothing new starts from it, running cells continue, and rollbacks to it are possible.
        Deprecated = "deprecated" => [Retired];
        /// Nothing uses it any more.
        Retired = "retired" => [];
    }
}

impl ArtifactState {
    /// Reports whether new cells may start from it.
    pub fn may_start(self) -> bool {
        !matches!(self, Self::Deprecated | Self::Retired)
    }
}

/// Kind of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// An image, or an index of images.
    Oci,
    /// Files: weights, data sets, scripts, tarballs.
    Blob,
}

impl ArtifactKind {
    /// Returns its name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oci => "oci",
            Self::Blob => "blob",
        }
    }

    /// Parses a kind from its name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Oci, Self::Blob].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Trust in an artifact's signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Signed by one of the project's keys.
    Trusted,
    /// Without a signature.
    Unsigned,
    /// Signed, but by no valid signature.
    Untrusted,
}

impl Trust {
    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Unsigned => "unsigned",
            Self::Untrusted => "untrusted",
        }
    }
}

/// Result of verifying an artifact's signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The result.
    pub trust: Trust,
    /// Why no signature is valid: a code from a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Message for users.
    pub message: String,
    /// Key of the valid signature.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key_id: Option<KeyId>,
    /// Digest of the valid signature.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signature: Option<String>,
    /// Time of the verification.
    pub checked_at: Timestamp,
}

/// An artifact.
#[derive(Debug, Clone)]
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
    /// The succession that it belongs to.
    pub line: String,
    /// Promotion state.
    pub state: ArtifactState,
    /// Percentage of starts that get the canary.
    pub canary_percent: Option<i64>,
    /// Result of verifying its signatures.
    pub verdict: Option<Verdict>,
    /// Edition of the project's keys and policy used for that.
    pub policy: Option<i64>,
    /// Evidence that a cell from it ran.
    pub smoke_witness_id: Option<WitnessId>,
    /// The artifact that superseded it.
    pub superseded_by: Option<ArtifactId>,
    /// Time of its deprecation.
    pub deprecated_at: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// When it was published.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Artifact {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A state change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ArtifactChange)]
pub struct Change {
    /// State before; absent for the publication.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<ArtifactState>,
    /// State after.
    pub after: ArtifactState,
    /// The actor.
    pub actor_id: String,
    /// Reason.
    pub reason: String,
    /// Time.
    pub at: Timestamp,
}

/// A project's requirements for artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustPolicy {
    /// Highest state of an artifact without a signature.
    pub unsigned_up_to: ArtifactState,
    /// Whether staging needs a smoke test.
    pub smoke_to_stage: bool,
    /// Hours of deprecation before an artifact can be retired.
    pub grace_hours: i64,
    /// Edition of the policy and the keys.
    pub policy: i64,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Default for TrustPolicy {
    /// Unsigned artifacts can be staged and no more; deprecated ones stay for a week.
    fn default() -> Self {
        Self {
            unsigned_up_to: ArtifactState::Staged,
            smoke_to_stage: false,
            grace_hours: 24 * 7,
            policy: 1,
            version: 1,
        }
    }
}

impl TrustPolicy {
    /// Reports whether an artifact in this state may be unsigned. A deprecated one counts as active, because its cells
    /// continue to run.
    pub fn lets_unsigned(&self, state: ArtifactState) -> bool {
        state.min(ArtifactState::Active) <= self.unsigned_up_to
    }
}

record! {
    noun "key", title "key", path "keys", table "publisher_keys", parent project_id: ProjectId,
    unique name true, changes [revoked_at, revoked_reason];

    /// A publisher's public key.
    #[derive(Debug, Clone, Serialize, ToSchema)]
    #[schema(as = Key)]
    pub struct PublisherKey {
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
        /// Creation time.
        pub created_at: Timestamp,
        /// Time since which its signatures are no longer accepted.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub revoked_at: Option<Timestamp>,
        /// Reason for the revocation.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub revoked_reason: Option<String>,
        /// Version for `If-Match`.
        pub version: i64,
    }
}

/// A repository of the registry.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Its id.
    pub id: RepositoryId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name in the project.
    pub name: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// A manifest of a repository.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Its digest.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
    /// Its declared artifact type.
    pub artifact_type: Option<String>,
    /// Digest of the manifest that it refers to.
    pub subject: Option<String>,
    /// Its annotations.
    pub annotations: Value,
    /// Its content.
    pub content: Vec<u8>,
    /// Total size in bytes of everything it references, itself included.
    pub total_size: i64,
    /// The blobs it needs.
    pub blobs: Vec<String>,
    /// The manifests it needs.
    pub children: Vec<String>,
}
