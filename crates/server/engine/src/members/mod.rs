//! The operations on several members at once. Each member has an operation of its own; these open them and wait for them.

mod each;

use each::EACH;
use futures::future::BoxFuture;
use muster_db::Result;
use muster_ids::MemberId;
use muster_model::operation::OperationState;

use crate::Act;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::remainder::{Meant, settle_members};

/// Where some did what they were for and others did not, somebody decides; where none did, it is over.
const PARKS: &[&str] = &["some_failed"];

const fn of(kind: &'static str) -> Definition {
    Definition {
        kind,
        steps: &[EACH],
        on_failure: OnFailure::ParkFor(PARKS),
        at_deadline: AtDeadline::Park,
        cancellable: true,
        no_return: None,
        abandon: Abandon::Never,
        unblock_by: "tenant",
        settle,
    }
}

/// `members.add`.
pub const ADD: Definition = of("members.add");
/// `members.drain`.
pub const DRAIN: Definition = of("members.drain");
/// `members.resume`.
pub const RESUME: Definition = of("members.resume");
/// `members.remove`.
pub const REMOVE: Definition = of("members.remove");
/// `members.replace`.
pub const REPLACE: Definition = of("members.replace");
/// `members.recover`.
pub const RECOVER: Definition = of("members.recover");

/// Those whose turn never came are not left waiting for ever, nor counted as if it had.
fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<Act>> {
    let each = |meant: Meant| -> Vec<(MemberId, Meant)> {
        cx.operation.items.iter().filter_map(|item| item.id.parse().ok()).map(|id| (id, meant)).collect()
    };
    let meant = match cx.operation.kind.as_str() {
        "members.add" => each(Meant::Add),
        "members.remove" => each(Meant::Remove),
        "members.replace" => {
            let successors = cx.operation.input["successors"].as_object().into_iter().flatten();
            successors
                .filter_map(|(_, id)| id.as_str()?.parse().ok())
                .map(|id| (id, Meant::Succeed))
                .collect()
        }
        _ => Vec::new(),
    };
    settle_members(cx, state, meant)
}
