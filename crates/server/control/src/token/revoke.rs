//! Revoke a token: it becomes invalid on every replica within five seconds, and so do the streams that it opened.
use muster_api::Code;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{path, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `token_revoke`.
pub async fn revoke(cx: &Cx, reference: &str) -> Result<PreparedCommand> {
    let (mut token, scope, own) = cx.token(reference).await?;
    if !own {
        cx.authorize(Permission::TokenRevoke, scope, "token")?;
    }
    if token.revoked_at.is_some() {
        return Err(Error::new(Code::InvalidState, "the token was revoked before"));
    }
    let before = view(&token);
    token.revoked_at = Some(cx.now);
    token.version += 1;
    let (id, at, path) = (token.id, cx.now, path(&token));
    let told = json!({"name": token.name, "hint": token.hint});
    let commit = PreparedCommand::new(scope, target("token", id, &token.name), move |tx| {
        Box::pin(async move {
            tx.token_revoke(id, at).await?;
            Ok(Answer::new(&view(&token)))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::TokenRevoked, path, told))
}
