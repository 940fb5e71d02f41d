//! Quarantine a slot. An allocated one stays with its holder; it is not allocated again afterwards.

use muster_api::Code;
use muster_api::slot::SlotQuarantine;
use muster_authz::Permission;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::node::SlotState;
use serde_json::json;

use super::{current, path};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `slot_quarantine`. A slot that the platform quarantined by itself can be quarantined again: a late successful
/// wipe then does not release it.
pub async fn quarantine(cx: &Cx, reference: &str, body: SlotQuarantine) -> Result<PreparedCommand> {
    cx.authorize(Permission::SlotQuarantine, Scope::Platform, "slot")?;
    let seen = cx.slot(reference).await?;
    let (subject, now) = (path(&seen), cx.now);
    let told = json!({"node_id": seen.node_id, "device": seen.device, "reason": body.reason});
    let before = seen.clone();
    let commit = PreparedCommand::new(Scope::Platform, target("slot", seen.id, &seen.device), move |tx| {
        Box::pin(async move {
            tx.node_lock(seen.node_id).await?;
            let slot = current(tx, &seen).await?;
            if !slot.state.can_become(SlotState::Quarantined) {
                return Err(Error::new(Code::InvalidState, "the slot's device is gone"));
            }
            tx.slot_set_state(slot.id, SlotState::Quarantined, Some(&body.reason), None, now).await?;
            tx.node_recount(slot.node_id).await?;
            Ok(Answer::new(&current(tx, &seen).await?))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::SlotQuarantined, subject, told))
}
