//! Show a token.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `token_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    let (token, scope, own) = cx.token(reference).await?;
    if !own {
        cx.authorize(Permission::TokenGet, scope, "token")?;
    }
    Ok(Answer::new(&view(&token)))
}
