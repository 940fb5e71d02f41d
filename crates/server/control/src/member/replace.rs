//! Replace members with new ones.

use jiff::SignedDuration;
use muster_api::member::MemberTake;
use muster_authz::Permission;
use muster_manifest::Verb;

use super::order::{Order, order};
use crate::{Cx, PreparedCommand, Result};

/// Prepares `member_replace`.
pub async fn replace(cx: &Cx, project: &str, instance: &str, body: MemberTake) -> Result<PreparedCommand> {
    let asked = Order {
        verb: Verb::Replace,
        permission: Permission::MemberReplace,
        forced: Some(Permission::MemberForceReplace),
        members: body.members,
        force: body.force.unwrap_or(false),
        reason: body.reason,
        ready_until: body.ready_until,
        within: SignedDuration::from_hours(1),
        dry_run: body.dry_run.unwrap_or(false),
    };
    order(cx, project, instance, asked).await
}
