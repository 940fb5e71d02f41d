//! Check whether an action is allowed, and why. An invisible scope is reported as not found.
use muster_api::me::{CanI, CanIQuery};
use muster_authz::{Decision, Permission, decide};

use crate::{Answer, Cx, Error, Result};

/// Handles `can_i`.
pub async fn can_i(cx: &Cx, query: CanIQuery) -> Result<Answer> {
    let permission = Permission::parse(&query.permission).ok_or_else(|| {
        Error::field(
            "query/permission",
            format!("`{}` is not a permission; it must be noun.verb", query.permission),
        )
    })?;
    let scope = cx.scope(query.tenant.as_deref(), query.project.as_deref()).await?;
    let (allowed, reason) = match decide(cx.principal()?, permission, scope) {
        Decision::Allowed(reason) => (true, reason),
        Decision::Denied(reason) => (false, reason),
        Decision::Invisible => return Err(Error::not_found("scope")),
    };
    Ok(Answer::new(&CanI { permission: query.permission, allowed, reason }))
}
