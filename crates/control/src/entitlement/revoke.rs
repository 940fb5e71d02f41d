//! Let nothing new be launched; what runs stays operable until it is decommissioned.

use muster_api::tenant::Nothing;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{anywhere, path, view};
use crate::commit::target;
use crate::{Answer, Commit, Cx, Result};

/// Prepares `entitlement_revoke`. Only the project that has it revokes it. Where nothing lives that it operates, the account is
/// shut out at once, with every token of it.
pub async fn revoke(cx: &Cx, project: &str, reference: &str, _body: Nothing) -> Result<Commit> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::EntitlementRevoke, scope, "entitlement")?;
    let found = anywhere(cx, reference).await?;
    let mut entitlement = found.entitlement;
    if entitlement.project_id != project {
        return Err(Problem::not_found("entitlement"));
    }
    if entitlement.revoked_at.is_some() {
        return Err(Problem::new(Code::InvalidState, "the entitlement was revoked before"));
    }
    entitlement.revoked_at = Some(cx.now);
    entitlement.updated_at = cx.now;
    entitlement.version += 1;
    let told = json!({"app": found.app, "operator_account_id": entitlement.operator_account_id});
    let (subject, named) = (path(&entitlement), target("entitlement", entitlement.id, &found.app));
    let now = cx.now;
    let commit = Commit::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.entitlement_update(&entitlement).await?;
            tx.entitlement_account_rest(entitlement.operator_account_id, now).await?;
            Ok(Answer::new(&view(&entitlement, &found.app)))
        })
    });
    Ok(commit.revokes().event(cx, EventType::EntitlementRevoked, subject, told))
}
