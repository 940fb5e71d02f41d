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

use muster_model::Project;

pub(crate) fn path(project: &Project) -> String {
    format!("/v1/projects/{}", project.id)
}
