//! Recover failed members in place.

use jiff::SignedDuration;
use muster_api::member::MemberAct;
use muster_authz::Permission;
use muster_manifest::Verb;

use super::order::{Order, order};
use crate::{Cx, PreparedCommand, Result};

/// Prepares `member_recover`.
pub async fn recover(cx: &Cx, project: &str, instance: &str, body: MemberAct) -> Result<PreparedCommand> {
    let asked = Order {
        verb: Verb::Recover,
        permission: Permission::MemberRecover,
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
