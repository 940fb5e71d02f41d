//! Operations on several members. Each member has a child operation; these open the children and wait for them.

mod run_all;

use muster_db::Result;
use muster_ids::MemberId;
use muster_model::operation::{OperationKind, OperationState};
use run_all::RUN_ALL;

use crate::StepAction;
use crate::bulk_cleanup::{Intent, settle_members};
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};

/// A partial success blocks for a decision; a total failure ends the operation.
const BLOCKS: &[&str] = &["some_failed"];

const fn of(kind: OperationKind) -> Definition {
    Definition {
        kind,
        steps: &[RUN_ALL],
        on_failure: OnFailure::BlockFor(BLOCKS),
        at_deadline: AtDeadline::Block,
        cancellable: true,
        no_return: None,
        abandon: Abandon::Never,
        resolvable_by: "tenant",
        settle: |cx, state| Box::pin(settle(cx, state)),
    }
}

/// `members.add`.
pub const ADD: Definition = of(OperationKind::MembersAdd);
/// `members.drain`.
pub const DRAIN: Definition = of(OperationKind::MembersDrain);
/// `members.resume`.
pub const RESUME: Definition = of(OperationKind::MembersResume);
/// `members.remove`.
pub const REMOVE: Definition = of(OperationKind::MembersRemove);
/// `members.replace`.
pub const REPLACE: Definition = of(OperationKind::MembersReplace);
/// `members.recover`.
pub const RECOVER: Definition = of(OperationKind::MembersRecover);

/// Members that were never started are failed and no longer counted.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let each = |meant: Intent| -> Vec<(MemberId, Intent)> {
        cx.operation.items.iter().filter_map(|item| item.id.parse().ok()).map(|id| (id, meant)).collect()
    };
    let meant = match cx.operation.kind {
        OperationKind::MembersAdd => each(Intent::Add),
        OperationKind::MembersRemove => each(Intent::Remove),
        OperationKind::MembersReplace => {
            cx.operation.input.successors.values().map(|id| (*id, Intent::Succeed)).collect()
        }
        _ => Vec::new(),
    };
    settle_members(cx, state, meant).await
}
