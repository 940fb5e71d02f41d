//! Tokens.

mod get;
mod issue;
mod list;
mod revoke;
mod rotate;

pub use get::get;
pub use issue::issue;
pub use list::list;
pub use revoke::revoke;
pub use rotate::rotate;

use jiff::{SignedDuration, Timestamp};
use muster_api::{Code, token as api};
use muster_db::{StoreError, Tx};
use muster_ids::TokenId;
use muster_model::token::{Subject, Token, TokenKind};

use crate::{Cx, Error, Result};

/// Default lifetime of a token in seconds.
const LIFETIME: u32 = 90 * 24 * 3600;

/// Returns the expiry of a token issued now: at most that of the actor's own token. Otherwise a leaked short-lived token
/// could extend itself. A user's session, which required a password, may issue longer ones.
pub(crate) fn expiry(cx: &Cx, seconds: Option<u32>) -> Result<Timestamp> {
    let wish = cx.now + SignedDuration::from_secs(i64::from(seconds.unwrap_or(LIFETIME)));
    let actor = cx.authenticated()?;
    Ok(match actor.token_kind {
        TokenKind::Session => wish,
        _ => wish.min(actor.expires_at),
    })
}

/// Returns the parent of a token issued now, which ends together with its parent; none for a session, which ends with every
/// logout.
pub(crate) fn issuer(cx: &Cx) -> Result<Option<TokenId>> {
    let actor = cx.authenticated()?;
    Ok((actor.token_kind != TokenKind::Session).then_some(actor.token_id))
}

/// Keeps the actor's token from being revoked until the commit. Every transaction that issues a token begins with it: a revoked
/// token stays in the cache of other replicas for a while, and a revocation that it missed would not end what it issued.
pub(crate) async fn hold_issuer(tx: &mut Tx, issued_with: TokenId) -> Result<()> {
    match tx.token_hold(issued_with).await {
        Err(StoreError::Stale) => Err(Error::new(Code::Unauthenticated, "the token was revoked")),
        held => Ok(held?),
    }
}

pub(crate) fn view(token: &Token) -> api::Token {
    let (user_id, service_account_id) = match token.subject {
        Subject::User(id) => (Some(id), None),
        Subject::ServiceAccount(id) => (None, Some(id)),
    };
    api::Token {
        id: token.id,
        kind: match token.kind {
            TokenKind::Personal => api::TokenKind::Personal,
            TokenKind::ServiceAccount => api::TokenKind::ServiceAccount,
            TokenKind::Session => api::TokenKind::Session,
            // `TokenKind::ALL` lists the kinds in the table, without these.
            TokenKind::Pull | TokenKind::Join => {
                unreachable!("a join token is an enrolment, never a personal token")
            }
        },
        user_id,
        service_account_id,
        name: token.name.clone(),
        hint: token.hint.clone(),
        created_at: token.created_at,
        expires_at: token.expires_at,
        revoked_at: token.revoked_at,
        last_used_at: token.last_used_at,
        version: token.version,
        parent_id: token.parent_id,
        secret: None,
        secret_shown_once: None,
    }
}

pub(crate) fn path(token: &Token) -> String {
    format!("/v1/tokens/{}", token.id)
}
