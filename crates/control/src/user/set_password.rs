//! Set a password. Everything that was derived from the old one ends.

use muster_api::Problem;
use muster_api::user::UserSetPassword;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{path, view};
use crate::commit::target;
use crate::{Answer, Commit, Cx, Result, password};

/// Prepares `user_set_password`.
pub async fn set_password(cx: &Cx, reference: &str, body: UserSetPassword) -> Result<Commit> {
    let mut user = cx.user(reference).await?;
    let own = cx.user_id() == Some(user.id);
    if own {
        // A stolen token must not be enough to take the account over.
        if let Some(hash) = &user.password_hash {
            let given = body.current_password.unwrap_or_default();
            if !password::verify(given, Some(hash.clone())).await? {
                return Err(Problem::field("/current_password", "this is not the password until now"));
            }
        }
    } else {
        cx.authorize(Permission::UserSetPassword, user.scope(), "person")?;
    }
    user.password_hash = Some(password::hash(&cx.platform.world, body.password).await?);
    user.updated_at = cx.now;
    user.version += 1;
    let (subject, at) = (path(&user), cx.now);
    let commit = Commit::new(user.scope(), target("user", user.id, &user.email), move |tx| {
        Box::pin(async move {
            tx.user_update(&user).await?;
            tx.token_revoke_of_user(user.id, at).await?;
            Ok(Answer::new(&view(&user)))
        })
    });
    Ok(commit.revokes().event(cx, EventType::UserPasswordSet, subject, json!({"own": own})))
}
