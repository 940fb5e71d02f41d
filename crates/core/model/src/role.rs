//! Roles, and their binding to people.

use jiff::Timestamp;
use muster_ids::{RoleBindingId, UserId};
use serde::{Deserialize, Serialize};

use crate::Scope;

/// What a person may be. Service accounts have allow lists instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs the platform: nodes, tenants, prices; no way into tenants' cells or secrets.
    PlatformOperator,
    /// Everything inside one tenant.
    TenantAdmin,
    /// Everything inside one project.
    ProjectAdmin,
    /// Reads one project.
    ProjectViewer,
}

impl Role {
    /// All of them, in order of reach.
    pub const ALL: [Role; 4] =
        [Role::PlatformOperator, Role::TenantAdmin, Role::ProjectAdmin, Role::ProjectViewer];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::PlatformOperator => "platform_operator",
            Role::TenantAdmin => "tenant_admin",
            Role::ProjectAdmin => "project_admin",
            Role::ProjectViewer => "project_viewer",
        }
    }

    /// The role that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// Whether the role can be bound at this scope: each role has exactly one level.
    pub fn fits(self, scope: Scope) -> bool {
        matches!(
            (self, scope),
            (Role::PlatformOperator, Scope::Platform)
                | (Role::TenantAdmin, Scope::Tenant(_))
                | (Role::ProjectAdmin | Role::ProjectViewer, Scope::Project(..))
        )
    }
}

/// A role that a person holds at a scope.
#[derive(Debug, Clone)]
pub struct RoleBinding {
    /// Its id.
    pub id: RoleBindingId,
    /// Who holds it.
    pub user_id: UserId,
    /// The person's address, for people who read lists.
    pub user_email: String,
    /// Which role.
    pub role: Role,
    /// Where.
    pub scope: Scope,
    /// Since when.
    pub created_at: Timestamp,
}
