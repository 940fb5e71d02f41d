//! Delete an unused app and its releases.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_authz::Permission;
use muster_db::{AppHolds, StoreError};
use muster_model::event::EventType;
use serde_json::json;

use super::{path, published, view};
use crate::commit::target;
use crate::tenant::{counted, removed_view};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `app_delete`. The publisher cannot end what consumers hold: they revoke their entitlements themselves, and their
/// instances remain in their records.
pub async fn delete(cx: &Cx, project: &str, reference: &str) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppDelete, scope, "app")?;
    let found = published(cx, scope, project, reference).await?;
    let before = view(&found);
    let app = found.app;
    cx.expect_version(app.version)?;
    let (subject, named) = (path(&app), target("app", app.id, &app.slug));
    let told = json!({"slug": app.slug});
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            used(tx.app_held(app.id).await?)?;
            let releases = tx.app_delete(app.id, app.version).await.map_err(|error| match error {
                StoreError::Gone(_) => meanwhile(),
                error => error.into(),
            })?;
            let removed = BTreeMap::from([("app_versions", counted(releases))]);
            Ok(Answer::new(&removed_view(&app.id, removed)))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::AppDeleted, subject, told))
}

fn used(holds: AppHolds) -> Result<()> {
    let AppHolds { entitlements, instances } = holds;
    if entitlements == 0 && instances == 0 {
        return Ok(());
    }
    let says = format!(
        "it is in use: {entitlements} projects are entitled to it and must revoke that first, and \
         {instances} instances of it are on record, which are deleted with their projects; to withdraw the \
         app, set its audience to the project and demote its active release"
    );
    Err(Error::new(Code::InvalidState, says))
}

fn meanwhile() -> Error {
    Error::new(Code::InvalidState, "its use changed at this moment: read it again")
}
