//! Resume drained members. A drain in progress is superseded.

use jiff::SignedDuration;
use muster_api::member::MemberAct;
use muster_authz::Permission;
use muster_manifest::Verb;

use super::order::{Order, order};
use crate::{Cx, PreparedCommand, Result};

/// Prepares `member_resume`.
pub async fn resume(cx: &Cx, project: &str, instance: &str, body: MemberAct) -> Result<PreparedCommand> {
    let asked = Order {
        verb: Verb::Resume,
        permission: Permission::MemberResume,
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
