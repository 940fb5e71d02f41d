//! Log out: ends the session of this request.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::token::TokenKind;
use serde_json::json;

use super::COOKIE;
use crate::commit::target;
use crate::tenant::removed_view;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `session_delete`.
pub async fn delete(cx: &Cx) -> Result<PreparedCommand> {
    let actor = cx.authenticated()?;
    if actor.token_kind != TokenKind::Session {
        let detail = "this request came with a token, not with a browser session: revoke the token to end it";
        return Err(Error::new(Code::InvalidState, detail));
    }
    let (id, at) = (actor.token_id, cx.now);
    let scope = actor.principal.tenant().map_or(Scope::Platform, Scope::Tenant);
    let subject = format!("/v1/users/{}", actor.principal.id());
    let commit = PreparedCommand::new(scope, target("session", id, &actor.principal.name), move |tx| {
        Box::pin(async move {
            tx.token_revoke(id, at).await?;
            let expired = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
            Ok(Answer::new(&removed_view(&id, BTreeMap::new())).with_cookie(expired))
        })
    });
    Ok(commit.revokes().event(cx, EventType::SessionDeleted, subject, json!({})))
}
