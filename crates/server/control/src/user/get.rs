//! Show a user. Users can always read their own entry.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `user_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    let user = cx.user(reference).await?;
    if cx.user_id() != Some(user.id) {
        cx.authorize(Permission::UserGet, user.scope(), "person")?;
    }
    Ok(Answer::new(&view(&user)))
}
