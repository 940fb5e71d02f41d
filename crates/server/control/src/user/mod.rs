//! Users.

mod create;
mod delete;
mod get;
mod list;
mod set_password;
mod update;

pub use create::create;
pub use delete::delete;
pub use get::get;
pub use list::list;
pub use set_password::set_password;
pub use update::update;

use muster_api::Code;
use muster_api::user as api;
use muster_db::Tx;
use muster_ids::UserId;
use muster_model::User;

use crate::{Error, Result};

pub(crate) fn view(user: &User) -> api::User {
    api::User {
        id: user.id,
        tenant_id: user.tenant_id,
        email: user.email.clone(),
        login: user.login.as_ref().map(|login| login.name.clone()),
        uid: user.login.as_ref().map(|login| login.uid.into()),
        display_name: user.display_name.clone(),
        disabled: user.disabled,
        has_password: user.password_hash.is_some(),
        labels: user.labels.clone(),
        created_at: user.created_at,
        updated_at: user.updated_at,
        version: user.version,
    }
}

pub(crate) fn path(user: &User) -> String {
    format!("/v1/users/{}", user.id)
}

/// Rejects a change that would leave the platform without an active operator.
pub(crate) async fn keep_an_operator(tx: &mut Tx, leaving: UserId) -> Result<()> {
    let operators = tx.operators_locked().await?;
    if operators.contains(&leaving) && operators.iter().all(|operator| *operator == leaving) {
        let detail = "this is the last active operator: give another person the role first";
        return Err(Error::new(Code::LastOperator, detail));
    }
    Ok(())
}
