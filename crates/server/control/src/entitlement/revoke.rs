//! Revoke an entitlement: nothing new can be launched, but running instances stay operable until they are decommissioned.

use muster_api::Code;
use muster_api::entitlement::EntitlementRevoke;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{anywhere, path, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result, adapter_task};

/// Prepares `entitlement_revoke`. Only the project that has it revokes it. Where nothing lives that it operates, the account is
/// shut out at once, with every token of it; with `cut_off` also where something lives, and with every task it asked for.
pub async fn revoke(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: EntitlementRevoke,
) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::EntitlementRevoke, scope, "entitlement")?;
    let found = anywhere(cx, reference).await?;
    let mut entitlement = found.entitlement;
    if entitlement.project_id != project {
        return Err(Error::not_found("entitlement"));
    }
    let cut_off = body.cut_off.unwrap_or(false);
    if entitlement.revoked_at.is_some() && !cut_off {
        return Err(Error::new(Code::InvalidState, "the entitlement was revoked before"));
    }
    let before = view(&entitlement, &found.app);
    entitlement.revoked_at = entitlement.revoked_at.or(Some(cx.now));
    entitlement.updated_at = cx.now;
    entitlement.version += 1;
    let told =
        json!({"app": found.app, "operator_account_id": entitlement.operator_account_id, "cut_off": cut_off});
    let (subject, named) = (path(&entitlement), target("entitlement", entitlement.id, &found.app));
    let now = cx.now;
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.entitlement_update(&entitlement).await?;
            if cut_off {
                tx.entitlement_account_cut_off(entitlement.operator_account_id, now).await?;
                tx.entitlement_tasks_expire(entitlement.operator_account_id, adapter_task::PREFIX, now)
                    .await?;
            } else {
                tx.entitlement_account_rest(entitlement.operator_account_id, now).await?;
            }
            Ok(Answer::new(&view(&entitlement, &found.app)))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::EntitlementRevoked, subject, told))
}
