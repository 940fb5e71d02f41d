//! Add a person.

use muster_api::user::UserCreate;
use muster_authz::Permission;
use muster_ids::UserId;
use muster_model::event::EventType;
use muster_model::{Scope, User};
use serde_json::json;

use super::{path, view};
use crate::commit::target;
use crate::tenant::checked_labels;
use crate::{Answer, Commit, Cx, Result, password};

/// Prepares `user_create`.
pub async fn create(cx: &Cx, body: UserCreate) -> Result<Commit> {
    let scope = cx.scope(body.tenant.as_deref(), None).await?;
    cx.authorize(Permission::UserCreate, scope, "tenant")?;
    let password_hash = match body.password {
        Some(password) => Some(password::hash(&cx.platform.world, password).await?),
        None => None,
    };
    let email = body.email.to_lowercase();
    let user = User {
        id: cx.platform.world.id::<UserId>(),
        tenant_id: scope.tenant(),
        display_name: body.display_name.unwrap_or_else(|| email.clone()),
        email,
        password_hash,
        disabled: false,
        labels: checked_labels(body.labels)?,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let (subject, told) = (path(&user), json!({"email": user.email}));
    let scope: Scope = user.scope();
    let commit = Commit::new(scope, target("user", user.id, &user.email), move |tx| {
        Box::pin(async move {
            tx.user_insert(&user).await?;
            Ok(Answer::new(&view(&user)))
        })
    });
    Ok(commit.event(cx, EventType::UserCreated, subject, told))
}
