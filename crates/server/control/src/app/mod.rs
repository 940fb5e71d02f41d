//! Apps in the catalog.

mod compatibility;
mod create;
mod delete;
mod get;
mod list;
mod schema;
mod update;

pub use compatibility::compatibility;
pub(crate) use compatibility::site;
pub use create::create;
pub use delete::delete;
pub use get::get;
pub use list::list;
use muster_api::{Code, app as api};
use muster_db::FoundApp;
use muster_ids::{AppId, ProjectId};
use muster_model::Scope;
use muster_model::app::App;
pub use schema::schema;
pub use update::update;

use crate::{Cx, Error, Result};

/// Returns its path, under the publisher's project.
pub(crate) fn path(app: &App) -> String {
    format!("/v1/projects/{}/apps/{}", app.project_id, app.id)
}

/// Returns the view for a project.
fn view(found: &FoundApp) -> api::App {
    let app = &found.app;
    api::App {
        id: app.id,
        tenant_id: app.tenant_id,
        project_id: app.project_id,
        slug: app.slug.clone(),
        display_name: app.display_name.clone(),
        description: app.description.clone(),
        audience: app.audience,
        labels: app.labels.clone(),
        active_version: found.active_version.clone(),
        canary_version: found.canary_version.clone(),
        entitled: found.entitled,
        created_at: app.created_at,
        updated_at: app.updated_at,
        version: app.version,
    }
}

/// Returns an app by slug or id, if the project can find it in the catalog. A hidden app is reported as not found.
pub(crate) async fn found(cx: &Cx, scope: Scope, reference: &str) -> Result<FoundApp> {
    let absent = || Error::not_found("app");
    let (tenant, project) = scope.tenant().zip(scope.project()).ok_or_else(absent)?;
    let store = &cx.platform.store;
    let found = match reference.parse::<AppId>() {
        Ok(id) => store.app_found(project, tenant, id).await,
        Err(_) => store.app_found_by_slug(project, tenant, reference).await,
    };
    found?.ok_or_else(absent)
}

/// Returns an app that the project itself publishes. Apps of other publishers cannot be changed.
pub(crate) async fn published(
    cx: &Cx,
    scope: Scope,
    project: ProjectId,
    reference: &str,
) -> Result<FoundApp> {
    let found = found(cx, scope, reference).await?;
    if found.app.project_id == project {
        return Ok(found);
    }
    let why = format!("{} is published by another project, which alone can change it", found.app.slug);
    Err(Error::new(Code::PermissionDenied, why))
}
