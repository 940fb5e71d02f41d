//! Drain and remove members, and verify that nothing of them is left.

use jiff::SignedDuration;
use muster_api::member::MemberTake;
use muster_authz::Permission;
use muster_manifest::Verb;

use super::order::{Order, order};
use crate::{Cx, PreparedCommand, Result};

/// Prepares `member_remove`.
pub async fn remove(cx: &Cx, project: &str, instance: &str, body: MemberTake) -> Result<PreparedCommand> {
    let asked = Order {
        verb: Verb::Remove,
        permission: Permission::MemberRemove,
        forced: Some(Permission::MemberForceRemove),
        members: body.members,
        force: body.force.unwrap_or(false),
        reason: body.reason,
        ready_until: body.ready_until,
        within: SignedDuration::from_hours(1),
        dry_run: body.dry_run.unwrap_or(false),
    };
    order(cx, project, instance, asked).await
}
