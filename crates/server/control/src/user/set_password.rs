//! Set a password. All sessions and tokens of the user end.

use std::time::Instant;

use muster_api::Code;
use muster_api::user::UserSetPassword;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{path, view};
use muster_keys::password;

use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, RateDecision, Result};

/// Attempts to enter the current password, per second: slow enough against guessing.
const ATTEMPTS: f64 = 0.2;

/// Prepares `user_set_password`.
pub async fn set_password(cx: &Cx, reference: &str, body: UserSetPassword) -> Result<PreparedCommand> {
    let mut user = cx.user(reference).await?;
    let own = cx.user_id() == Some(user.id);
    if own {
        // A stolen token must not be enough to take over the account.
        match &user.password_hash {
            Some(hash) => {
                let attempts = format!("set password {}", user.id);
                if let RateDecision::Wait(_) = cx.limits().take_from(attempts, ATTEMPTS, Instant::now()) {
                    let detail = "too many attempts to set this password; wait a few seconds";
                    return Err(Error::new(Code::RateLimited, detail));
                }
                let given = body.current_password.unwrap_or_default();
                if !password::verify(given, Some(hash.clone())).await? {
                    return Err(Error::field("/current_password", "this is not the current password"));
                }
            }
            None if cx.authenticated()?.parent.is_some() => {
                let detail = "a token issued by another token cannot set a first password: use the first \
                              token of the account, or ask an administrator";
                return Err(Error::new(Code::PermissionDenied, detail));
            }
            None => {}
        }
    } else {
        cx.authorize(Permission::UserSetPassword, user.scope(), "person")?;
    }
    // Record only whether there was one.
    let before = json!({"has_password": user.password_hash.is_some()});
    user.password_hash = Some(password::hash(&cx.platform.env, body.password).await?);
    user.updated_at = cx.now;
    user.version += 1;
    let (subject, at) = (path(&user), cx.now);
    let commit = PreparedCommand::new(user.scope(), target("user", user.id, &user.email), move |tx| {
        Box::pin(async move {
            tx.user_update(&user).await?;
            tx.token_revoke_of_user(user.id, at).await?;
            Ok(Answer::new(&view(&user)))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::UserPasswordSet, subject, json!({"own": own})))
}
