//! Whether somebody took a member out of work, who will want to find it so. One that an upgrade took out goes on with the
//! upgrade, or with the way back.

use muster_db::{Result, Store};
use muster_model::member::{Member, MemberState};

use super::upgrade::UPGRADE;

/// Looks who took it out.
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
