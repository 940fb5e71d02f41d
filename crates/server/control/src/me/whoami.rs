//! Show the caller's identity.

use muster_api::me::{HeldRole, WhoAmI};
use muster_authz::PrincipalKind;

use crate::{Answer, Cx, Result};

/// Handles `whoami`.
pub async fn whoami(cx: &Cx) -> Result<Answer> {
    let actor = cx.authenticated()?;
    let (project_id, roles, permissions) = match &actor.principal.kind {
        PrincipalKind::User { grants, .. } => {
            let held = grants.iter().map(|grant| HeldRole {
                role: grant.role,
                tenant_id: grant.scope.tenant(),
                project_id: grant.scope.project(),
            });
            (None, held.collect(), Vec::new())
        }
        PrincipalKind::ServiceAccount { project, permissions, .. } => {
            let words = permissions.iter().map(|permission| permission.as_str().to_owned());
            (Some(*project), Vec::new(), words.collect())
        }
    };
    Ok(Answer::new(&WhoAmI {
        kind: actor.principal.kind_word().to_owned(),
        id: actor.principal.id(),
        name: actor.principal.name.clone(),
        tenant_id: actor.principal.tenant(),
        project_id,
        roles,
        permissions,
        token_id: actor.token_id,
        expires_at: actor.expires_at,
    }))
}
