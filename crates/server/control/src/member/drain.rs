//! Drain members, and verify that no work is left on them.

use jiff::SignedDuration;
use muster_api::member::MemberAct;
use muster_authz::Permission;
use muster_manifest::Verb;

use super::order::{Order, order};
use crate::{Cx, PreparedCommand, Result};

/// Prepares `member_drain`.
pub async fn drain(cx: &Cx, project: &str, instance: &str, body: MemberAct) -> Result<PreparedCommand> {
    let asked = Order {
        verb: Verb::Drain,
        permission: Permission::MemberDrain,
        forced: None,
        members: body.members,
        force: false,
        reason: body.reason,
        ready_until: body.ready_until,
        within: SignedDuration::from_mins(30),
        dry_run: body.dry_run.unwrap_or(false),
    };
    order(cx, project, instance, asked).await
}
