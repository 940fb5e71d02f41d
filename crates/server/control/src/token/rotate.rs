//! Rotate a token: for a while both the old and the new one work, so that clients need not stop.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::token::TokenRotate;
use muster_authz::Permission;
use muster_ids::TokenId;
use muster_model::event::EventType;
use muster_model::token::{Secret, Subject, Token, TokenKind};
use serde_json::json;

use super::{expiry, hold_issuer, issuer, path, view};
use crate::commit::target;
use crate::entitlement::not_minted_by_hand;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `token_rotate`.
pub async fn rotate(cx: &Cx, reference: &str, body: TokenRotate) -> Result<PreparedCommand> {
    let (old, scope, own) = cx.token(reference).await?;
    let actor = cx.authenticated()?;
    // A token may rotate itself. Rotating another of the same account takes it over, which needs the permission, or the
    // session of its user.
    if own && actor.token_id != old.id && actor.token_kind != TokenKind::Session {
        cx.authorize(Permission::TokenRotate, scope, "token")?;
    }
    if !own {
        cx.authorize(Permission::TokenRotate, scope, "token")?;
        if old.kind != TokenKind::ServiceAccount {
            return Err(Error::new(
                Code::PermissionDenied,
                "another person's token cannot be rotated; revoke it instead",
            ));
        }
    }
    if let Subject::ServiceAccount(account) = old.subject {
        not_minted_by_hand(cx, account).await?;
    }
    if old.kind == TokenKind::Session {
        return Err(Error::new(Code::InvalidState, "a browser session cannot be rotated: log in again"));
    }
    if old.revoked_at.is_some() || old.expires_at <= cx.now {
        return Err(Error::new(Code::InvalidState, "the token has expired: issue a new one"));
    }
    let overlap = SignedDuration::from_secs(i64::from(body.overlap_seconds.unwrap_or(3600)));
    let ends_at = (cx.now + overlap).min(old.expires_at);
    let before = view(&old);
    let secret = Secret::make(old.kind, &cx.platform.env);
    let fresh = Token {
        id: cx.platform.env.id::<TokenId>(),
        hint: secret.hint(),
        created_at: cx.now,
        expires_at: expiry(cx, body.expires_in_seconds)?,
        last_used_at: None,
        version: 1,
        parent_id: issuer(cx)?,
        ..old.clone()
    };
    let told = json!({"replaces": old.id, "old_ends_at": ends_at, "hint": fresh.hint, "expires_at": fresh.expires_at});
    let path = path(&fresh);
    let issued_with = actor.token_id;
    let commit = PreparedCommand::new(scope, target("token", fresh.id, &fresh.name), move |tx| {
        Box::pin(async move {
            hold_issuer(tx, issued_with).await?;
            tx.token_shorten(old.id, ends_at, old.version).await?;
            tx.token_insert(&fresh, secret.hash()).await?;
            Ok(Answer::new(&view(&fresh)).with_secret("secret", secret.reveal()))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::TokenRotated, path, told))
}
