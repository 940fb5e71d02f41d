//! Releases of apps.

mod demote;
mod get;
mod lint;
mod list;
mod promote;
mod publish;
mod resolve;
mod step;

pub use demote::demote;
pub use get::get;
pub use list::list;
use muster_api::{Code, app as api};
use muster_db::FoundVersion;
use muster_ids::{AppVersionId, ProjectId};
use muster_manifest::Manifest;
use muster_model::app::{App, AppVersion};
pub use promote::promote;
pub use publish::publish;
pub use resolve::resolve_version;

use crate::{Cx, Error, Result};

/// Returns its path, under the publisher's project.
pub(crate) fn path(version: &AppVersion) -> String {
    format!("/v1/projects/{}/apps/{}/versions/{}", version.project_id, version.app_id, version.id)
}

/// Returns the view for a project.
fn view(app: &App, found: &FoundVersion) -> api::AppVersion {
    let version = &found.version;
    let warnings = lint::faults(&version.manifest).into_iter().filter(|fault| !fault.error).collect();
    api::AppVersion {
        id: version.id,
        app_id: version.app_id,
        app: app.slug.clone(),
        name: version.name.clone(),
        manifest: version.manifest.as_object().cloned().unwrap_or_default(),
        digest: version.digest.clone(),
        state: version.state,
        canary_percent: version.canary_percent,
        superseded_by: version.superseded_by,
        instances: found.instances,
        warnings,
        created_at: version.created_at,
        updated_at: version.updated_at,
        version: version.version,
    }
}

/// Returns a release of an app by name or id, as visible to a project: drafts of other publishers are not found.
pub(crate) async fn found(cx: &Cx, project: ProjectId, app: &App, reference: &str) -> Result<FoundVersion> {
    let store = &cx.platform.store;
    let found = match reference.parse::<AppVersionId>() {
        Ok(id) => store.app_version_lookup(project, id).await,
        Err(_) => store.app_version_by_name(project, app.id, reference).await,
    };
    found?.filter(|found| found.version.app_id == app.id).ok_or_else(|| Error::not_found("release"))
}

/// Returns a release's manifest, parsed.
pub(crate) fn manifest_of(version: &AppVersion) -> Result<Manifest> {
    muster_manifest::read(&version.manifest).map_err(|faults| {
        tracing::error!(version = %version.id, ?faults, "a published manifest cannot be read");
        Error::new(
            Code::Internal,
            "the release's manifest cannot be read; give the correlation id to the operator",
        )
    })
}
