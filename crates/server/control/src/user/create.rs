//! Create a user.

use muster_api::Code;
use muster_api::user::UserCreate;
use muster_authz::Permission;
use muster_db::Tx;
use muster_ids::{TenantId, UserId};
use muster_model::event::EventType;
use muster_model::{Login, Scope, User};
use serde_json::json;

use super::{path, view};
use muster_keys::password;

use crate::commit::target;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `user_create`.
pub async fn create(cx: &Cx, body: UserCreate) -> Result<PreparedCommand> {
    let scope = cx.scope(body.tenant.as_deref(), None).await?;
    cx.authorize(Permission::UserCreate, scope, "tenant")?;
    let password_hash = match body.password {
        Some(password) => Some(password::hash(&cx.platform.env, password).await?),
        None => None,
    };
    let email = body.email.to_lowercase();
    let mut user = User {
        id: cx.platform.env.id::<UserId>(),
        tenant_id: scope.tenant(),
        display_name: body.display_name.unwrap_or_else(|| email.clone()),
        email,
        login: None,
        password_hash,
        disabled: false,
        labels: checked_labels(body.labels)?,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let (subject, told) = (path(&user), json!({"email": user.email}));
    let scope: Scope = user.scope();
    let commit = PreparedCommand::new(scope, target("user", user.id, &user.email), move |tx| {
        Box::pin(async move {
            if let Some(tenant) = user.tenant_id {
                user.login = Some(login(tx, tenant, &user.email).await?);
            }
            tx.user_insert(&user).await?;
            Ok(Answer::new(&view(&user)))
        })
    });
    Ok(commit.event(cx, EventType::UserCreated, subject, told))
}

async fn login(tx: &mut Tx, tenant: TenantId, email: &str) -> Result<Login> {
    let Some(uid) = tx.tenant_next_uid(tenant).await? else {
        let detail = "the tenant has used up all user numbers of its cells";
        return Err(Error::new(Code::QuotaExceeded, detail));
    };
    let (best, other) = Login::names(email, uid);
    let name = match best {
        Some(name) if !tx.user_login_taken(tenant, &name).await? => name,
        _ => other,
    };
    Ok(Login { name, uid })
}
