//! Projects.

use jiff::Timestamp;
use muster_ids::{ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, ListQuery, page};
use crate::tenant::{DeleteQuery, Removed};
use crate::{Operation, shape};

/// A project: ownership and quota inside a tenant.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// The tenant that owns it.
    pub tenant_id: TenantId,
    /// That tenant's slug.
    pub tenant: String,
    /// Its name, unique in the tenant; `tenant.name` is its name on the platform.
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

/// A project to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectCreate {
    /// Its name, unique in the tenant.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "train")]
    pub name: String,
    /// What people read; the name if not given.
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// What of a project can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectUpdate {
    /// What people read.
    #[schema(max_length = 200)]
    pub display_name: Option<String>,
    /// Labels; they replace the old ones.
    pub labels: Option<Labels>,
}

page! {
    /// A page of projects.
    ProjectPage of Project
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::create(
        "project_create",
        "/v1/tenants/{tenant}/projects",
        shape::<ProjectCreate>(),
        shape::<Project>(),
    )
    .needs("project.create")
    .summary("Make a project in a tenant"),
    Operation::read("project_list", "/v1/projects", shape::<ProjectPage>())
        .needs("project.list")
        .query(shape::<ListQuery>())
        .summary("List the projects you may see"),
    Operation::read("project_get", "/v1/projects/{project}", shape::<Project>())
        .needs("project.get")
        .summary("Show a project"),
    Operation::update("project_update", "/v1/projects/{project}", shape::<ProjectUpdate>(), shape::<Project>())
        .needs("project.update")
        .summary("Change a project's description"),
    Operation::delete("project_delete", "/v1/projects/{project}", shape::<Removed>())
        .needs("project.delete")
        .query(shape::<DeleteQuery>())
        .summary("Remove a project")
        .description(
            "Removes the project; with `cascade` also its service accounts, tokens, role bindings, webhooks and what is \
             known of allocations that ended. While an allocation lives the project stays: release it first.",
        ),
];
