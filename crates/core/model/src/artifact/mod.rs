//! Artifacts: content by digest, how far each may be used, and by which rules that changes.

pub(crate) mod promotion;
#[cfg(test)]
mod promotion_tests;

use jiff::Timestamp;
use muster_ids::{ArtifactId, KeyId, ProjectId, RepositoryId, TenantId, WitnessId};
use serde_json::Value;

use crate::state::states;
use crate::{Labels, Scope};

pub use promotion::{Facts, Moves, Refusal, Step, plan, retirable_at};

states! {
    /// How far an artifact may be used.
    ArtifactState {
        /// It was published, and nothing more.
        Draft = "draft" => [Staged, Retired];
        /// It passed lint, trust and, where the project asks for it, a smoke test.
        Staged = "staged" => [Canary, Retired];
        /// It is offered to a part of what starts.
        Canary = "canary" => [Active, Staged];
        /// It is what starts.
        Active = "active" => [Deprecated];
        /// A newer one took its place: nothing new starts from it, what runs goes on, and one may roll back to it.
        Deprecated = "deprecated" => [Retired];
        /// Nothing uses it any more.
        Retired = "retired" => [];
    }
}

impl ArtifactState {
    /// Whether something new may be started from it.
    pub fn may_start(self) -> bool {
        !matches!(self, Self::Deprecated | Self::Retired)
    }
}

/// What kind of content it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactKind {
    /// An image, or an index of images.
    Oci,
    /// Files.
    Blob,
}

impl ArtifactKind {
    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oci => "oci",
            Self::Blob => "blob",
        }
    }

    /// The kind that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Oci, Self::Blob].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What is known of an artifact's signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// One of the project's keys signed it.
    Trusted,
    /// Nobody signed it.
    Unsigned,
    /// It has signatures, and none of them counts.
    Untrusted,
}

impl Trust {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Unsigned => "unsigned",
            Self::Untrusted => "untrusted",
        }
    }
}

/// What was found when an artifact's signatures were looked at.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// In a word.
    pub trust: Trust,
    /// Why no signature counts, as a word of a closed list.
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
    /// When.
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
    /// What kind of content it is.
    pub kind: ArtifactKind,
    /// The media type of its manifest.
    pub media_type: String,
    /// Bytes of everything it is made of.
    pub size: i64,
    /// Which succession it belongs to.
    pub line: String,
    /// How far it may be used.
    pub state: ArtifactState,
    /// To how many of a hundred starts a canary is offered.
    pub canary_percent: Option<i64>,
    /// What was found of its signatures.
    pub verdict: Option<Verdict>,
    /// The edition of the project's keys and rules under which that was found.
    pub policy: Option<i64>,
    /// The evidence that a cell of it ran.
    pub smoke_witness_id: Option<WitnessId>,
    /// The artifact that took its place.
    pub superseded_by: Option<ArtifactId>,
    /// When it became deprecated.
    pub deprecated_at: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Artifact {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A change of an artifact's state.
#[derive(Debug, Clone)]
pub struct Change {
    /// What it was; nothing for the publishing.
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

/// What a project demands of artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustPolicy {
    /// How far an artifact may go that nobody signed.
    pub unsigned_up_to: ArtifactState,
    /// Whether staging needs a smoke test.
    pub smoke_to_stage: bool,
    /// How long one stays deprecated before it can be retired.
    pub grace_hours: i64,
    /// The edition of the rules and the keys.
    pub policy: i64,
    /// For `If-Match`.
    pub version: i64,
}

impl Default for TrustPolicy {
    /// What nobody signed may be tried, and nothing more; old artifacts stay for a week.
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
    /// Whether an artifact in this state may go without a signature. What is deprecated is judged as when it was active: what
    /// runs from it goes on.
    pub fn lets_unsigned(&self, state: ArtifactState) -> bool {
        state.min(ArtifactState::Active) <= self.unsigned_up_to
    }
}

/// A publisher's key.
#[derive(Debug, Clone)]
pub struct PublisherKey {
    /// Its id.
    pub id: KeyId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name.
    pub name: String,
    /// The key, as PEM.
    pub public_key: String,
    /// Its digest.
    pub fingerprint: String,
    /// What kind of key it is.
    pub algorithm: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// Since when its signatures count no more.
    pub revoked_at: Option<Timestamp>,
    /// Why.
    pub revoked_reason: Option<String>,
    /// For `If-Match`.
    pub version: i64,
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
    /// When it was made.
    pub created_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// A manifest of a repository.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Its digest.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
    /// What kind of artifact it says it is.
    pub artifact_type: Option<String>,
    /// The manifest that it speaks of.
    pub subject: Option<String>,
    /// Its annotations.
    pub annotations: Value,
    /// Every byte of it.
    pub content: Vec<u8>,
    /// Bytes of everything it leads to, itself included.
    pub total_size: i64,
    /// The blobs it needs.
    pub blobs: Vec<String>,
    /// The manifests it needs.
    pub children: Vec<String>,
}
