//! Role bindings.

use jiff::Timestamp;
use muster_ids::{ProjectId, RoleBindingId, TenantId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Removed;
use crate::{Operation, shape};

/// A role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs the platform.
    PlatformOperator,
    /// Everything inside one tenant.
    TenantAdmin,
    /// Everything inside one project.
    ProjectAdmin,
    /// Reads one project.
    ProjectViewer,
}

/// A role that a person holds somewhere.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RoleBinding {
    /// Its id.
    pub id: RoleBindingId,
    /// Who.
    pub user_id: UserId,
    /// The person's address.
    pub user_email: String,
    /// Which role.
    pub role: Role,
    /// In which tenant, for roles of a tenant or a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// In which project, for roles of a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Since when.
    pub created_at: Timestamp,
    /// For `If-Match`; a binding never changes, so it is always 1.
    pub version: i64,
}

/// A role to be given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleBindingCreate {
    /// The person, by address or id.
    #[schema(max_length = 254)]
    pub user: String,
    /// Which role.
    pub role: Role,
    /// The tenant, by slug or id: for `tenant_admin` alone.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// The project, by name or id: for `project_admin` and `project_viewer`.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

/// Whose bindings to list.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleBindingListQuery {
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// The token that the page before gave.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Those of a tenant and its projects, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Those of a project, by name or id. With neither, the whole platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

page! {
    /// A page of role bindings.
    RoleBindingPage of RoleBinding
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create(
        "role_binding_create",
        "/v1/role-bindings",
        shape::<RoleBindingCreate>(),
        shape::<RoleBinding>(),
    )
    .needs("role_binding.create")
    .summary("Give a person a role")
    .description("Nobody gives a role that reaches further than their own."),
    Operation::read("role_binding_list", "/v1/role-bindings", shape::<RoleBindingPage>())
        .needs("role_binding.list")
        .query(shape::<RoleBindingListQuery>())
        .summary("List who holds which role"),
    Operation::read("role_binding_get", "/v1/role-bindings/{role_binding}", shape::<RoleBinding>())
        .needs("role_binding.get")
        .summary("Show a role binding"),
    Operation::delete("role_binding_delete", "/v1/role-bindings/{role_binding}", shape::<Removed>())
        .needs("role_binding.delete")
        .summary("Take a role away"),
];
