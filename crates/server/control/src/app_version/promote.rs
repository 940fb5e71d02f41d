//! Promote a release.
use muster_api::app::AppVersionStep;
use muster_authz::Permission;
use muster_model::artifact::{ArtifactState, Step};

use super::found;
use super::step::{Asked, take};
use crate::app::published;
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `app_version_promote`.
pub async fn promote(
    cx: &Cx,
    project: &str,
    app: &str,
    reference: &str,
    body: AppVersionStep,
) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppVersionPromote, scope, "app")?;
    let app = published(cx, scope, project, app).await?.app;
    let version = found(cx, project, &app, reference).await?.version;
    let to = body.to;
    if body.percent.is_some() && to != ArtifactState::Canary {
        return Err(Error::field("/percent", "only a canary has a share"));
    }
    let step = Step::Promote { to, percent: body.percent };
    take(cx, app, version, Asked { step, reason: body.reason }).await
}
