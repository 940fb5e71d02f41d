//! Projects.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::{Labels, ListQuery, page};
use crate::tenant::{DeleteQuery, Removed};
use crate::{Endpoint, shape};

pub use muster_model::Project;

/// A project to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectCreate {
    /// Its name, unique in the tenant.
    #[schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "train")]
    pub name: String,
    /// Display name; default: the name.
    #[schema(max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// Labels.
    pub labels: Option<Labels>,
}

/// Properties of a project that can change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectUpdate {
    /// Display name.
    #[schema(max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub display_name: Option<String>,
    /// Labels; replace the existing ones.
    pub labels: Option<Labels>,
}

page! {
    /// A page of projects.
    ProjectPage of Project
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::create(
        "project_create",
        "/v1/tenants/{tenant}/projects",
        shape::<ProjectCreate>(),
        shape::<Project>(),
    )
    .needs("project.create")
    .summary("Create a project in a tenant"),
    Endpoint::read("project_list", "/v1/projects", shape::<ProjectPage>())
        .needs("project.list")
        .query(shape::<ListQuery>())
        .summary("List the projects you have access to"),
    Endpoint::read("project_get", "/v1/projects/{project}", shape::<Project>())
        .needs("project.get")
        .summary("Show a project"),
    Endpoint::update(
        "project_update",
        "/v1/projects/{project}",
        shape::<ProjectUpdate>(),
        shape::<Project>(),
    )
    .needs("project.update")
    .summary("Change a project's description"),
    Endpoint::delete("project_delete", "/v1/projects/{project}", shape::<Removed>())
        .needs("project.delete")
        .query(shape::<DeleteQuery>())
        .summary("Remove a project")
        .description(
            "Removes the project; with `cascade` also its service accounts, tokens, role bindings, webhooks \
             and the records of ended allocations. A project with a live allocation cannot be removed: \
             release it first.",
        ),
];
