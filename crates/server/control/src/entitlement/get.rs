//! Show an entitlement, to the consumer's and the publisher's project.
use muster_authz::Permission;

use super::{anywhere, view};
use crate::{Answer, Cx, Error, Result};

/// Handles `entitlement_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::EntitlementGet, scope, "entitlement")?;
    let found = anywhere(cx, reference).await?;
    let entitlement = &found.entitlement;
    if entitlement.project_id != project && entitlement.publisher_project_id != project {
        return Err(Error::not_found("entitlement"));
    }
    Ok(Answer::new(&view(entitlement, &found.app)))
}
