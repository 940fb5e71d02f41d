//! A newer intent takes over from one that is unfinished, with everything that one had done.

use jiff::Timestamp;
use muster_model::operation::{Operation, OperationState, StepState};
use muster_store::{Result, Tx};
use serde_json::json;

/// Ends `old` as superseded by `new`, which is opened with the old one's journal in its input under `inherited`. Whoever works
/// on the old one is fenced from this transaction on; its tasks and adapter steps that nobody has answered are not waited for any more, but the
/// newer operation must reckon with their effects, and every step of ours does.
pub async fn supersede(tx: &mut Tx, old: &Operation, new: &mut Operation, now: Timestamp) -> Result<bool> {
    let Some(mut old) = tx.operation_seize(old.id).await? else { return Ok(false) };
    let effects: Vec<_> = old
        .steps
        .iter()
        .filter(|step| !matches!(step.state, StepState::Pending | StepState::Skipped | StepState::Undone))
        .map(|step| json!({"step": step.name, "state": step.state, "output": step.output}))
        .collect();
    new.supersedes = Some(old.id);
    new.input["inherited"] = json!({"operation": old.id, "kind": old.kind, "effects": effects});
    old.state = OperationState::Superseded;
    old.parked = None;
    old.waiting = None;
    old.message = Some(format!("{} took over", new.id));
    tx.task_expire_of(old.id, now).await?;
    tx.adapter_step_cancel_of(old.id, now).await?;
    tx.operation_end(&old, now).await?;
    Ok(true)
}
