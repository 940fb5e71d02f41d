//! Roles, and their bindings to users.

use jiff::Timestamp;
use muster_ids::{RoleBindingId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Scope;

/// Role of a user. Service accounts have allow lists instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs the platform: nodes, tenants, prices; no access to tenants' cells or secrets.
    PlatformOperator,
    /// Everything inside one tenant.
    TenantAdmin,
    /// Everything inside one project.
    ProjectAdmin,
    /// Reads one project.
    ProjectViewer,
}

impl Role {
    /// All roles, in order of reach.
    pub const ALL: [Role; 4] =
        [Role::PlatformOperator, Role::TenantAdmin, Role::ProjectAdmin, Role::ProjectViewer];

    /// Returns its name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::PlatformOperator => "platform_operator",
            Role::TenantAdmin => "tenant_admin",
            Role::ProjectAdmin => "project_admin",
            Role::ProjectViewer => "project_viewer",
        }
    }

    /// Parses a role from its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// Reports whether the role can be bound at this scope: each role has exactly one level.
    pub fn fits(self, scope: Scope) -> bool {
        matches!(
            (self, scope),
            (Role::PlatformOperator, Scope::Platform)
                | (Role::TenantAdmin, Scope::Tenant(_))
                | (Role::ProjectAdmin | Role::ProjectViewer, Scope::Project(..))
        )
    }
}

/// A user's role at a scope.
#[derive(Debug, Clone)]
pub struct RoleBinding {
    /// Its id.
    pub id: RoleBindingId,
    /// The user.
    pub user_id: UserId,
    /// The user's email address, for lists.
    pub user_email: String,
    /// The role.
    pub role: Role,
    /// Its scope.
    pub scope: Scope,
    /// Creation time.
    pub created_at: Timestamp,
}
