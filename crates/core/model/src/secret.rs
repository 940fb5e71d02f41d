//! Secrets: a project's own, and what the platform issues for a purpose. Neither is ever here in clear.

use jiff::Timestamp;
use muster_ids::{CellId, InstanceId, ProjectId, RepositoryId, RuntimeSecretId, SecretId, TenantId};

use crate::Scope;

/// A project's own secret.
#[derive(Debug, Clone)]
pub struct ProjectSecret {
    /// Its id.
    pub id: SecretId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// The registry that it is a credential for, as `host` or `host:port`; it is sent to no other.
    pub registry: Option<String>,
    /// How often its content was set.
    pub revision: i64,
    /// How long the content is.
    pub size: i64,
    /// The content, sealed.
    pub sealed: Vec<u8>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its content was last set.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl ProjectSecret {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// What its content is sealed for: it opens as nothing else, and as no earlier content of itself.
    pub fn context(id: SecretId, revision: i64) -> String {
        format!("secret {id} {revision}")
    }
}

/// What a runtime secret is for: a closed list. `docs/decisions` says why these two, and what would prove a third.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To read one repository of the registry, for one incarnation of one cell, for an hour.
    ArtifactPull,
    /// What members share to join each other.
    ClusterBootstrap,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::ArtifactPull, Self::ClusterBootstrap];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ArtifactPull => "artifact_pull",
            Self::ClusterBootstrap => "cluster_bootstrap",
        }
    }

    /// The purpose that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == text)
    }
}

/// Material that was issued.
#[derive(Debug, Clone)]
pub struct RuntimeSecret {
    /// Its id.
    pub id: RuntimeSecretId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// What for.
    pub purpose: Purpose,
    /// What it is called.
    pub name: String,
    /// The repository that it reads.
    pub repository_id: Option<RepositoryId>,
    /// The cell that it was issued to.
    pub cell_id: Option<CellId>,
    /// Which incarnation of that.
    pub incarnation: Option<i64>,
    /// The instance that it was issued to: it ends with that.
    pub instance_id: Option<InstanceId>,
    /// The hash of a credential, which is kept nowhere else.
    pub hash: Option<[u8; 32]>,
    /// Other material, sealed.
    pub sealed: Option<Vec<u8>>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl RuntimeSecret {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// What its material is sealed for.
    pub fn context(id: RuntimeSecretId) -> String {
        format!("runtime secret {id}")
    }
}
