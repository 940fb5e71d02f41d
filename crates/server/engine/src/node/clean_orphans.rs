//! Removes orphans from the node, if requested, and verifies that. Missing resources are not recreated without their owner.

use muster_db::{Result, StoreError};
use muster_model::event::EventType;
use muster_wire::act::{Act, Sweep};
use serde_json::json;

use super::compare::{COMPARE, Compared, Differences, find_differences, found};
use super::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::step_outcome::recorded;
use crate::task::{Ask, Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const CLEAN_ORPHANS: Step = Step {
    name: "clean_orphans",
    does: "remove orphans on the node, if requested",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("orphans are not restored"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    let compared: Option<Compared> = recorded(cx.operation, &COMPARE)?;
    let Compared { resources, differences } = compared.ok_or(StoreError::Corrupt("a comparison"))?;
    let Differences { orphans, missing } = differences;
    let wanted = cx.operation.input.repair;
    let path = format!("/v1/nodes/{}", node.id);
    let mut data =
        json!({"name": node.name, "orphans": orphans.len(), "missing": missing.len(), "repaired": false});
    if orphans.is_empty() && missing.is_empty() {
        return Ok(tell(path, data, "no orphans to remove".to_owned()));
    }
    if orphans.is_empty() || !wanted {
        // Fail, so that a script learns of the differences from the exit status.
        let advice = if orphans.is_empty() { "" } else { "; repeat with `--repair` to remove the orphans" };
        let message = format!("{}{advice}", Differences { orphans, missing }.said(resources));
        return Ok(StepOutcome::Refused { reason: "differences_found", message }.into());
    }
    let act = Act::Sweep(Sweep { resources: orphans });
    let sweep = Ask { node: node.id, purpose: "sweep".into(), incarnation: 0, act };
    match ask(cx, &sweep).await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Failed(message) => {
            return Ok(StepOutcome::Refused { reason: "destroy_failed", message }.into());
        }
        Asked::Done(..) => {}
    }
    match found(cx, &node, "look again").await? {
        Asked::Pending(act) => Ok(act),
        Asked::Failed(message) => Ok(StepOutcome::Refused { reason: "verify_failed", message }.into()),
        Asked::Done(_, found) => {
            let left = find_differences(cx, &node, &found).await?;
            if !left.orphans.is_empty() {
                let message = format!("removed, but still present: {}", left.said(found.resources.len()));
                return Ok(StepOutcome::Refused { reason: "verify_failed", message }.into());
            }
            data["repaired"] = json!(true);
            Ok(tell(path, data, format!("removed and verified: {}", left.said(found.resources.len()))))
        }
    }
}

fn tell(path: String, data: serde_json::Value, said: String) -> StepAction {
    StepAction::commit(move |_, effects| {
        Box::pin(async move {
            effects.events.push((EventType::NodeAudited, path, data));
            Ok(StepOutcome::with_message(said))
        })
    })
}
