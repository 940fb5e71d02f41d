//! Adds the missing members of an instance. It has no undo: added members stay, and failed adds clean up after themselves.

use muster_db::Result;

use super::subject::members;
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather};
use crate::member::ADD;
use crate::{StepAction, StepOutcome};

pub(super) const GROW: Step = Step {
    name: "grow",
    does: "add the missing members",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("active members stay, and failed ones were rolled back"),
};

const AT_ONCE: usize = 64;

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let members = members(cx, &cx.operation.input.add).await?;
    let planned: Vec<Planned> = members
        .into_iter()
        .map(|member| Planned { member, definition: &ADD, input: cx.operation.input.for_new_member() })
        .collect();
    if planned.is_empty() {
        return Ok(StepOutcome::with_message("none").into());
    }
    Ok(match gather(cx, planned, AT_ONCE, TakesOver::Nothing).await? {
        Gathered::Pending(act) => super::shrink::among_all(cx, act),
        Gathered::Ended(items, done) if items.len() == done => {
            super::shrink::ended(cx, items, StepOutcome::with_message(format!("{done} more are active")))
        }
        Gathered::Ended(items, done) => {
            let message = format!("{done} of {} are active; {}", items.len(), failures(&items));
            super::shrink::ended(cx, items, StepOutcome::Refused { reason: "some_failed", message })
        }
    })
}
