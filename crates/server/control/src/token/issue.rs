//! Issue a token for the caller or for a service account. No actor can issue one for another user: that would be
//! impersonation.

use muster_api::Code;
use muster_api::token::TokenIssue;
use muster_authz::{Permission, PrincipalKind};
use muster_ids::TokenId;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::token::{Secret, Subject, Token, TokenKind};
use serde_json::json;

use super::{expiry, hold_issuer, issuer, path, view};
use crate::commit::target;
use crate::entitlement::not_minted_by_hand;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `token_issue`.
pub async fn issue(cx: &Cx, body: TokenIssue) -> Result<PreparedCommand> {
    let (kind, subject, scope) = match (&body.service_account, &cx.principal()?.kind) {
        (Some(reference), _) => {
            let account = cx.service_account_anywhere(reference).await?;
            cx.authorize(Permission::TokenIssue, account.scope(), "service account")?;
            not_minted_by_hand(cx, account.id).await?;
            (TokenKind::ServiceAccount, Subject::ServiceAccount(account.id), account.scope())
        }
        (None, PrincipalKind::User { id, tenant, .. }) => {
            (TokenKind::Personal, Subject::User(*id), tenant.map_or(Scope::Platform, Scope::Tenant))
        }
        (None, PrincipalKind::ServiceAccount { .. }) => {
            let detail = "a service account cannot issue tokens; it can rotate its own";
            return Err(Error::new(Code::PermissionDenied, detail));
        }
    };
    let secret = Secret::make(kind, &cx.platform.env);
    let token = Token {
        id: cx.platform.env.id::<TokenId>(),
        kind,
        subject,
        name: body.name,
        hint: secret.hint(),
        created_at: cx.now,
        expires_at: expiry(cx, body.expires_in_seconds)?,
        revoked_at: None,
        last_used_at: None,
        version: 1,
        parent_id: issuer(cx)?,
    };
    let told = json!({"name": token.name, "hint": token.hint, "expires_at": token.expires_at});
    let path = path(&token);
    let issued_with = cx.authenticated()?.token_id;
    let commit = PreparedCommand::new(scope, target("token", token.id, &token.name), move |tx| {
        Box::pin(async move {
            hold_issuer(tx, issued_with).await?;
            tx.token_insert(&token, secret.hash()).await?;
            Ok(Answer::new(&view(&token)).with_secret("secret", secret.reveal()))
        })
    });
    Ok(commit.event(cx, EventType::TokenIssued, path, told))
}
