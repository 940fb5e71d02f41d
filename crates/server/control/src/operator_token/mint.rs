//! Mint a short-lived token for an app's operator account in a consumer's project.

use muster_api::Code;
use muster_api::entitlement::OperatorTokenMint;
use muster_authz::Permission;
use muster_ids::TokenId;
use muster_model::event::EventType;
use muster_model::origin::Audited;
use muster_model::token::{Secret, Subject, Token, TokenKind};
use serde_json::json;

use crate::commit::target;
use crate::entitlement::anywhere;
use crate::token::{expiry, hold_issuer, issuer, path, view};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Maximum lifetime of an operator's token in seconds.
const LONGEST: u32 = 15 * 60;

/// Prepares `operator_token_mint`. The publisher's chain records the command, like any other of its accounts; the same
/// transaction records it in the consumer's chain and timeline, since the token gives access there.
pub async fn mint(cx: &Cx, project: &str, body: OperatorTokenMint) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::OperatorTokenMint, scope, "project")?;
    let found = anywhere(cx, &body.entitlement).await?;
    let entitlement = found.entitlement;
    if entitlement.publisher_project_id != project {
        return Err(Error::not_found("entitlement"));
    }
    if entitlement.permissions.is_empty() {
        let why = format!(
            "the project launched {0} without an adapter, and consented to none: it must grant the app first \
             (`muster entitlement grant {0}`)",
            found.app
        );
        return Err(Error::new(Code::InvalidState, why));
    }
    let seconds = body.expires_in_seconds.unwrap_or(LONGEST).min(LONGEST);
    let (expires_at, parent_id) = (expiry(cx, Some(seconds))?, issuer(cx)?);
    let secret = Secret::make(TokenKind::ServiceAccount, &cx.platform.env);
    let token = Token {
        id: cx.platform.env.id::<TokenId>(),
        kind: TokenKind::ServiceAccount,
        subject: Subject::ServiceAccount(entitlement.operator_account_id),
        name: format!("minted by {}", cx.principal()?.name),
        hint: secret.hint(),
        created_at: cx.now,
        expires_at,
        revoked_at: None,
        last_used_at: None,
        version: 1,
        parent_id,
    };
    let told = json!({"app": found.app, "entitlement_id": entitlement.id, "token_id": token.id, "hint": token.hint,
        "expires_at": token.expires_at, "consumer_project_id": entitlement.project_id,
        "publisher_project_id": entitlement.publisher_project_id});
    let (subject, named) = (path(&token), target("token", token.id, &token.name));
    // The consumer's project has an entry and an event of its own.
    let consumer = (entitlement.project_id != project).then(|| {
        let action = Permission::OperatorTokenMint.as_str();
        let audited = Audited::success(action, named.clone(), told.clone());
        (audited, (EventType::OperatorTokenMinted, subject.clone(), told.clone()))
    });
    let (env, origin) = (cx.platform.env.clone(), cx.origin(entitlement.scope()));
    let issued_with = cx.authenticated()?.token_id;
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            // Locked until the commit: a concurrent revocation waits, and then finds the token and disables its account.
            if !tx.entitlement_start(entitlement.id).await?
                && tx.entitlement_instances(entitlement.operator_account_id).await? == 0
            {
                return Err(revoked(&found.app));
            }
            hold_issuer(tx, issued_with).await?;
            tx.token_insert(&token, secret.hash()).await?;
            if let Some((audited, event)) = consumer {
                tx.outbox_append(&env, &origin, Some(audited), vec![event]).await?;
            }
            Ok(Answer::new(&view(&token)).with_secret("secret", secret.reveal()))
        })
    });
    Ok(commit.event(cx, EventType::OperatorTokenMinted, subject, told))
}

fn revoked(app: &str) -> Error {
    let says = format!("the entitlement to {app} is revoked, and no live instance is left to operate");
    Error::new(Code::InvalidState, says)
}
