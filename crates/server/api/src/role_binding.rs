//! Role bindings.

use jiff::Timestamp;
use muster_ids::{ProjectId, RoleBindingId, TenantId, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::tenant::Removed;
use crate::{Endpoint, shape};

pub use muster_model::role::Role;

/// A person's role in a scope.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RoleBinding {
    /// Its id.
    pub id: RoleBindingId,
    /// The person.
    pub user_id: UserId,
    /// The person's e-mail address.
    pub user_email: String,
    /// The role.
    pub role: Role,
    /// Tenant, for tenant and project roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Project, for project roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Version for `If-Match`; a binding never changes, so it is always 1.
    pub version: i64,
}

/// A role to grant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleBindingCreate {
    /// The person, by e-mail address or id.
    #[schema(max_length = 254)]
    pub user: String,
    /// The role.
    pub role: Role,
    /// Tenant, by slug or id: only for `tenant_admin`.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Project, by name or id: for `project_admin` and `project_viewer`.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

/// Filters for listing role bindings.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleBindingListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Of this tenant and its projects, by slug or id.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// Of this project, by name or id. With neither, the whole platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
}

page! {
    /// A page of role bindings.
    RoleBindingPage of RoleBinding
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create(
        "role_binding_create",
        "/v1/role-bindings",
        shape::<RoleBindingCreate>(),
        shape::<RoleBinding>(),
    )
    .needs("role_binding.create")
    .summary("Bind a role to a person")
    .description("Only a role within your own can be given."),
    Endpoint::read("role_binding_list", "/v1/role-bindings", shape::<RoleBindingPage>())
        .needs("role_binding.list")
        .query(shape::<RoleBindingListQuery>())
        .summary("List role bindings"),
    Endpoint::read("role_binding_get", "/v1/role-bindings/{role_binding}", shape::<RoleBinding>())
        .needs("role_binding.get")
        .summary("Show a role binding"),
    Endpoint::delete("role_binding_delete", "/v1/role-bindings/{role_binding}", shape::<Removed>())
        .needs("role_binding.delete")
        .summary("Remove a role binding"),
];
