//! Demote or retire a release.
use muster_api::app::AppVersionStep;
use muster_authz::Permission;
use muster_model::artifact::Step;

use super::found;
use super::step::{Asked, take};
use crate::app::published;
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `app_version_demote`.
pub async fn demote(
    cx: &Cx,
    project: &str,
    app: &str,
    reference: &str,
    body: AppVersionStep,
) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppVersionDemote, scope, "app")?;
    let app = published(cx, scope, project, app).await?.app;
    let version = found(cx, project, &app, reference).await?.version;
    if body.percent.is_some() {
        return Err(Error::field("/percent", "a demotion has no share: only a canary has one"));
    }
    let step = Step::Demote { to: body.to };
    take(cx, app, version, Asked { step, reason: body.reason }).await
}
