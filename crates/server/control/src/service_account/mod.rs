//! Service accounts.

mod create;
mod delete;
mod get;
mod list;
mod update;

pub use create::create;
pub use delete::delete;
pub use get::get;
pub use list::list;
use muster_api::Code;
use muster_authz::{Permission, decide};
use muster_model::{Role, Scope, ServiceAccount};
pub use update::update;

use crate::{Cx, Error, Result};

pub(crate) fn path(account: &ServiceAccount) -> String {
    format!("/v1/projects/{}/service-accounts/{}", account.project_id, account.id)
}

/// Validates an allow list: known permissions that service accounts can have and that the grantor holds too. Permissions
/// that no role contains, because no user may ever use them, can be granted by any actor that may create accounts here. The
/// result is sorted and deduplicated, so that equal lists compare equal.
pub(crate) fn allow_list(cx: &Cx, scope: Scope, field: &str, words: Vec<String>) -> Result<Vec<String>> {
    let mut list = Vec::new();
    for (at, word) in words.into_iter().enumerate() {
        let pointer = format!("{field}/{at}");
        let permission = Permission::parse(&word).ok_or_else(|| {
            Error::field(&pointer, format!("`{word}` is not a permission: see docs/reference/permissions.md"))
        })?;
        if !permission.allowable() {
            return Err(Error::field(&pointer, format!("`{word}` can never be given to a service account")));
        }
        let held_by_people = Role::ALL.into_iter().any(|role| permission.held_by(role));
        if held_by_people && !decide(cx.principal()?, permission, scope).is_allowed() {
            return Err(Error::new(Code::PermissionDenied, format!("you do not hold {word} yourself")));
        }
        list.push(word);
    }
    list.sort();
    list.dedup();
    Ok(list)
}
