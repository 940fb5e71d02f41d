//! Secrets: a project's own, and those that the platform issues. Neither is ever here in clear text.

use jiff::Timestamp;
use muster_ids::{CellId, InstanceId, ProjectId, RepositoryId, RuntimeSecretId, SecretId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Scope;
use crate::record::record;

record! {
    noun "secret", title "secret", path "secrets", table "secrets", parent project_id: ProjectId,
    unique name true, changes [revision, size, sealed, updated_at];

    /// A project's secret. Its value is only delivered to cells that reference it.
    #[derive(Debug, Clone, Serialize, ToSchema)]
    #[schema(as = Secret)]
    pub struct ProjectSecret {
        /// Its id.
        pub id: SecretId,
        /// The tenant.
        pub tenant_id: TenantId,
        /// The project.
        pub project_id: ProjectId,
        /// Its name, unique in the project.
        pub name: String,
        /// Registry that it is a credential for; `artifact publish` sends it there and nowhere else.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub registry: Option<String>,
        /// Number of times its value was set. A cell keeps the value from the time of its creation.
        pub revision: i64,
        /// Size of the value in bytes.
        pub size: i64,
        /// The value, sealed; the API never shows it.
        #[serde(skip)]
        pub sealed: Vec<u8>,
        /// Creation time.
        pub created_at: Timestamp,
        /// Time its value was last set.
        pub updated_at: Timestamp,
        /// Version for `If-Match`.
        pub version: i64,
    }
}

impl ProjectSecret {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// Returns the sealing context of its content: it opens in no other context, and not as an earlier revision.
    pub fn context(id: SecretId, revision: i64) -> String {
        format!("secret {id} {revision}")
    }
}

// `docs/decisions` explains these two, and the requirements for a third.
/// Purpose of a runtime secret, from a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Read one repository of the registry, for one incarnation of one cell, for an hour.
    ArtifactPull,
    /// Shared bootstrap secret of an instance's members.
    ClusterBootstrap,
}

impl Purpose {
    /// All values.
    pub const ALL: [Self; 2] = [Self::ArtifactPull, Self::ClusterBootstrap];

    /// Returns its name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ArtifactPull => "artifact_pull",
            Self::ClusterBootstrap => "cluster_bootstrap",
        }
    }

    /// Parses a purpose from its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == text)
    }
}

/// An issued secret.
#[derive(Debug, Clone)]
pub struct RuntimeSecret {
    /// Its id.
    pub id: RuntimeSecretId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// Its purpose.
    pub purpose: Purpose,
    /// Its name.
    pub name: String,
    /// Repository that it grants access to.
    pub repository_id: Option<RepositoryId>,
    /// Cell that it was issued to.
    pub cell_id: Option<CellId>,
    /// Incarnation of that cell.
    pub incarnation: Option<i64>,
    /// Instance that it was issued to: it is revoked with that.
    pub instance_id: Option<InstanceId>,
    /// Hash of a credential that is stored nowhere else.
    pub hash: Option<[u8; 32]>,
    /// Other material, sealed.
    pub sealed: Option<Vec<u8>>,
    /// Time at which it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was issued.
    pub created_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl RuntimeSecret {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }

    /// Returns the sealing context of its material.
    pub fn context(id: RuntimeSecretId) -> String {
        format!("runtime secret {id}")
    }
}
