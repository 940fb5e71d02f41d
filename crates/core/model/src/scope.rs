//! Where a thing belongs: the platform, a tenant, or a project of a tenant.

use muster_ids::{ProjectId, TenantId};

/// The boundary inside which a grant counts and a resource lives.
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
    /// The tenant, where there is one.
    pub fn tenant(self) -> Option<TenantId> {
        match self {
            Scope::Platform => None,
            Scope::Tenant(tenant) | Scope::Project(tenant, _) => Some(tenant),
        }
    }

    /// The project, where there is one.
    pub fn project(self) -> Option<ProjectId> {
        match self {
            Scope::Project(_, project) => Some(project),
            Scope::Platform | Scope::Tenant(_) => None,
        }
    }

    /// Whether everything in `other` is also in `self`. Ids are compared whole, never by prefix.
    pub fn contains(self, other: Scope) -> bool {
        match (self, other) {
            (Scope::Platform, _) => true,
            (Scope::Tenant(mine), Scope::Tenant(theirs) | Scope::Project(theirs, _)) => mine == theirs,
            (Scope::Project(_, mine), Scope::Project(_, theirs)) => mine == theirs,
            (Scope::Tenant(_) | Scope::Project(..), Scope::Platform)
            | (Scope::Project(..), Scope::Tenant(_)) => false,
        }
    }

    /// The audit chain that entries of this scope are hashed into: one for each tenant, one for the platform.
    pub fn chain(self) -> String {
        self.tenant().map_or_else(|| "platform".to_owned(), |tenant| tenant.to_string())
    }

    /// From two columns, as every table that has a scope keeps it.
    pub fn from_columns(tenant: Option<TenantId>, project: Option<ProjectId>) -> Self {
        match (tenant, project) {
            (None, _) => Scope::Platform,
            (Some(tenant), None) => Scope::Tenant(tenant),
            (Some(tenant), Some(project)) => Scope::Project(tenant, project),
        }
    }
}
