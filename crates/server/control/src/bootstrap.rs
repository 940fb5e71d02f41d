//! First start on an empty database: creates the platform's key and the operator, and writes the operator's token to a file
//! once.

use jiff::SignedDuration;
use muster_db::StoreError;
use muster_ids::{RoleBindingId, TokenId, UserId};
use muster_model::audit::Target;
use muster_model::origin::{Audited, Origin};
use muster_model::token::{Secret, Subject, Token, TokenKind};
use muster_model::{Labels, Role, RoleBinding, Scope, User};
use serde_json::json;

use muster_keys::PLATFORM;

use crate::{Error, Platform, Result};

/// Result of a first start.
pub struct FirstStart {
    /// The operator's token, to be shown or stored once.
    pub operator_token: Secret,
    /// The operator's email address.
    pub operator_email: String,
}

/// Creates the operator if the database has none. Several replicas may start concurrently on an empty database: the
/// platform's key has one row, so exactly one of them wins, and only that one knows the token. `keep` receives the token
/// before the commit: a token that could not be stored must not exist.
pub async fn first_start(
    platform: &Platform,
    keep: impl FnOnce(&FirstStart) -> std::io::Result<()>,
) -> Result<Option<FirstStart>> {
    if platform.store.sealing_key_newest(PLATFORM).await?.is_some() {
        return Ok(None);
    }
    let env = &platform.env;
    let now = env.now();
    let key = platform.envelope.make(env, PLATFORM, 1)?;
    let user = User {
        id: env.id::<UserId>(),
        tenant_id: None,
        email: "operator@localhost".to_owned(),
        login: None,
        display_name: "Operator".to_owned(),
        password_hash: None,
        disabled: false,
        labels: Labels::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let binding = RoleBinding {
        id: env.id::<RoleBindingId>(),
        user_id: user.id,
        user_email: user.email.clone(),
        role: Role::PlatformOperator,
        scope: Scope::Platform,
        created_at: now,
    };
    let secret = Secret::make(TokenKind::Personal, env);
    let token = Token {
        id: env.id::<TokenId>(),
        kind: TokenKind::Personal,
        subject: Subject::User(user.id),
        name: "first start".to_owned(),
        hint: secret.hint(),
        created_at: now,
        expires_at: now + SignedDuration::from_hours(24 * 365),
        revoked_at: None,
        last_used_at: None,
        version: 1,
        parent_id: None,
    };
    let origin = Origin::platform(env, Scope::Platform, "first start");
    let named = Target { kind: "user".to_owned(), id: user.id.to_string(), name: Some(user.email.clone()) };
    let audited = Audited::success("platform.first_start", named, json!({}));
    let made = FirstStart { operator_token: secret, operator_email: user.email.clone() };
    let mut tx = platform.store.begin().await?;
    let written = async {
        tx.sealing_key_insert(&key, now).await?;
        tx.user_insert(&user).await?;
        tx.role_binding_insert(&binding).await?;
        tx.token_insert(&token, made.operator_token.hash()).await?;
        tx.outbox_append(env, &origin, Some(audited), Vec::new()).await
    };
    match written.await {
        Ok(()) => {
            if let Err(error) = keep(&made) {
                tx.rollback().await;
                return Err(Error::new(
                    muster_api::Code::Unavailable,
                    format!("the operator's token could not be written, so nothing was created: {error}"),
                ));
            }
            tx.commit().await?;
            Ok(Some(made))
        }
        Err(StoreError::Conflict(_)) => {
            tx.rollback().await;
            Ok(None)
        }
        Err(error) => Err(Error::from(error)),
    }
}
