//! Change a user's entry, or disable the user.

use muster_api::user::UserUpdate;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{keep_an_operator, path, view};
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `user_update`.
pub async fn update(cx: &Cx, reference: &str, body: UserUpdate) -> Result<PreparedCommand> {
    let mut user = cx.user(reference).await?;
    cx.authorize(Permission::UserUpdate, user.scope(), "person")?;
    cx.expect_version(user.version)?;
    let told = changed(
        &view(&user),
        &[
            ("display_name", body.display_name.as_ref().map(|name| json!(name))),
            ("disabled", body.disabled.map(|disabled| json!(disabled))),
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
        ],
    );
    if let Some(name) = body.display_name {
        user.display_name = name;
    }
    let disabled = body.disabled.is_some();
    let shuts_out = body.disabled == Some(true) && !user.disabled;
    if let Some(disabled) = body.disabled {
        user.disabled = disabled;
    }
    if body.labels.is_some() {
        user.labels = checked_labels(body.labels)?;
    }
    user.updated_at = cx.now;
    user.version += 1;
    let subject = path(&user);
    let commit = PreparedCommand::new(user.scope(), target("user", user.id, &user.email), move |tx| {
        Box::pin(async move {
            if shuts_out {
                keep_an_operator(tx, user.id).await?;
            }
            tx.user_update(&user).await?;
            if let Some(tenant) = user.tenant_id.filter(|_| disabled) {
                tx.bump_desired_people(tenant).await?;
            }
            Ok(Answer::new(&view(&user)))
        })
    });
    Ok(commit.revokes().event(cx, EventType::UserUpdated, subject, told))
}
