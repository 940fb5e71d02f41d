//! Projects.

mod create;
mod delete;
mod get;
mod list;
mod update;

pub use create::create;
pub use delete::delete;
pub use get::get;
pub use list::list;
pub use update::update;

use muster_api::project as api;
use muster_model::Project;

pub(crate) fn view(project: &Project) -> api::Project {
    api::Project {
        id: project.id,
        tenant_id: project.tenant_id,
        tenant: project.tenant_slug.clone(),
        name: project.name.clone(),
        display_name: project.display_name.clone(),
        labels: project.labels.clone(),
        created_at: project.created_at,
        updated_at: project.updated_at,
        version: project.version,
    }
}

pub(crate) fn path(project: &Project) -> String {
    format!("/v1/projects/{}", project.id)
}
