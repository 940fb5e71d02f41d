//! Scopes: the platform, a tenant, or a project of a tenant.

use muster_ids::{ProjectId, TenantId};

/// The boundary inside which a grant applies and a resource lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The whole platform.
    Platform,
    /// One tenant.
    Tenant(TenantId),
    /// One project, with the tenant that owns it.
    Project(TenantId, ProjectId),
}

impl Scope {
    /// Returns the tenant, if any.
    pub fn tenant(self) -> Option<TenantId> {
        match self {
            Scope::Platform => None,
            Scope::Tenant(tenant) | Scope::Project(tenant, _) => Some(tenant),
        }
    }

    /// Returns the project, if any.
    pub fn project(self) -> Option<ProjectId> {
        match self {
            Scope::Project(_, project) => Some(project),
            Scope::Platform | Scope::Tenant(_) => None,
        }
    }

    /// Reports whether everything in `other` is also in `self`. Ids are compared whole, never by prefix.
    pub fn contains(self, other: Scope) -> bool {
        match (self, other) {
            (Scope::Platform, _) => true,
            (Scope::Tenant(mine), Scope::Tenant(theirs) | Scope::Project(theirs, _)) => mine == theirs,
            (Scope::Project(_, mine), Scope::Project(_, theirs)) => mine == theirs,
            (Scope::Tenant(_) | Scope::Project(..), Scope::Platform)
            | (Scope::Project(..), Scope::Tenant(_)) => false,
        }
    }

    /// Returns the audit chain of this scope: one for each tenant, one for the platform.
    pub fn chain(self) -> String {
        self.tenant().map_or_else(|| "platform".to_owned(), |tenant| tenant.to_string())
    }

    /// Builds a scope from the two columns in which tables store it.
    pub fn from_columns(tenant: Option<TenantId>, project: Option<ProjectId>) -> Self {
        match (tenant, project) {
            (None, _) => Scope::Platform,
            (Some(tenant), None) => Scope::Tenant(tenant),
            (Some(tenant), Some(project)) => Scope::Project(tenant, project),
        }
    }
}
