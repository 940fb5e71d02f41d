//! Show a person. People always see themselves.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Answers `user_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    let user = cx.user(reference).await?;
    if cx.user_id() != Some(user.id) {
        cx.authorize(Permission::UserGet, user.scope(), "person")?;
    }
    Ok(Answer::new(&view(&user)))
}
