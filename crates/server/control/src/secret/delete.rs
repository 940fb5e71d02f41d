//! Delete a secret that no live cell uses.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_authz::Permission;
use muster_model::Record as _;
use muster_model::event::EventType;
use muster_model::secret::ProjectSecret;
use serde_json::json;

use crate::resource::find;
use crate::tenant::removed_view;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `secret_delete`.
pub async fn delete(cx: &Cx, project: &str, reference: &str) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::SecretDelete, scope, "secret")?;
    let secret: ProjectSecret = find(cx, project, reference).await?;
    cx.expect_version(secret.version)?;
    let (subject, named) = (secret.path(), secret.target());
    let told = json!({"name": secret.name, "revision": secret.revision});
    let before = secret.clone();
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            let cells = tx.secret_delete(&secret).await?;
            if !cells.is_empty() {
                return Err(in_use(&cells));
            }
            Ok(Answer::new(&removed_view(&secret.id, BTreeMap::new())))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::SecretDeleted, subject, told))
}

fn in_use(cells: &[String]) -> Error {
    let detail = format!("live cells use it: {}; destroy them first", cells.join(", "));
    Error::new(Code::InvalidState, detail)
}
