//! Distinguishes a member that a user drained, and that must stay drained, from one drained by an upgrade, which the upgrade
//! or its rollback resumes.

use muster_db::{Result, Store};
use muster_model::member::{Member, MemberState};

use super::upgrade::UPGRADE;

/// Reports whether the member was drained by something other than an upgrade.
pub async fn at_rest(store: &Store, member: &Member) -> Result<bool> {
    if !matches!(member.state, MemberState::Draining | MemberState::Drained) {
        return Ok(false);
    }
    let by = match member.operation_id {
        Some(id) => store.operation_lookup(id).await?,
        None => None,
    };
    Ok(by.is_none_or(|by| by.kind != UPGRADE.kind))
}
