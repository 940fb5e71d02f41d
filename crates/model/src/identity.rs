//! Tenants, projects, people and service accounts.

use jiff::Timestamp;
use muster_ids::{ProjectId, ServiceAccountId, TenantId, UserId};

use crate::{Labels, Scope};

/// The outer wall of isolation.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Its name, unique on the platform.
    pub slug: String,
    /// What people read.
    pub display_name: String,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// Ownership and quota inside a tenant.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// The owner.
    pub tenant_id: TenantId,
    /// The owner's slug.
    pub tenant_slug: String,
    /// Its name, unique in the tenant.
    pub name: String,
    /// What people read.
    pub display_name: String,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Project {
    /// Where it is.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.id)
    }
}

/// A person.
#[derive(Debug, Clone)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The tenant that the person belongs to; platform people belong to none.
    pub tenant_id: Option<TenantId>,
    /// The address, lower case, unique on the platform.
    pub email: String,
    /// What people read.
    pub display_name: String,
    /// Argon2id in PHC form; absent until a password was set.
    pub password_hash: Option<String>,
    /// A disabled person can neither log in nor use a token.
    pub disabled: bool,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl User {
    /// Where the person is administered.
    pub fn scope(&self) -> Scope {
        self.tenant_id.map_or(Scope::Platform, Scope::Tenant)
    }
}

/// Automation inside one project.
#[derive(Debug, Clone)]
pub struct ServiceAccount {
    /// Its id.
    pub id: ServiceAccountId,
    /// The tenant of its project.
    pub tenant_id: TenantId,
    /// Its project, outside of which it can do nothing.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The allow list: permissions by name, nothing implied.
    pub permissions: Vec<String>,
    /// A disabled account's tokens are refused.
    pub disabled: bool,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl ServiceAccount {
    /// Where it lives.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}
