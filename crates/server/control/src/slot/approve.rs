//! Approve a slot for use on an operator's decision. The platform has verified nothing, and the event and the audit record
//! that.

use muster_api::Code;
use muster_api::slot::SlotApprove;
use muster_authz::Permission;
use muster_db::StoreError;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::node::SlotState;
use serde_json::json;

use super::{current, path};
use crate::commit::{target, told};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

fn not_there() -> Error {
    Error::new(
        Code::InvalidState,
        "the slot's device is not on the node: approval cannot bring it back; the slot returns when the device is found",
    )
}

/// Prepares `slot_approve`.
pub async fn approve(cx: &Cx, reference: &str, body: SlotApprove) -> Result<PreparedCommand> {
    cx.authorize(Permission::SlotApprove, Scope::Platform, "slot")?;
    let seen = cx.slot(reference).await?;
    let (subject, now) = (path(&seen), cx.now);
    let told = told(&[
        ("node_id", Some(json!(seen.node_id))),
        ("device", Some(json!(seen.device))),
        ("reason", Some(json!(body.reason))),
        ("on_the_word_of", Some(json!(cx.actor_id()))),
        ("was", Some(json!(seen.state))),
        ("was_because", seen.reason.as_ref().map(|reason| json!(reason))),
    ]);
    let before = seen.clone();
    let commit = PreparedCommand::new(Scope::Platform, target("slot", seen.id, &seen.device), move |tx| {
        Box::pin(async move {
            tx.node_lock(seen.node_id).await?;
            let slot = current(tx, &seen).await?;
            let refused = match slot.state {
                SlotState::Approved => Some("the slot is already approved"),
                SlotState::Retired => Some("the slot's device is gone"),
                SlotState::Discovered if tx.node_of(slot.node_id).await?.approved_at.is_none() => {
                    Some("the node is not approved yet: `node_approve` approves its slots with it")
                }
                SlotState::Discovered | SlotState::Quarantined => None,
            };
            if let Some(why) = refused {
                return Err(Error::new(Code::InvalidState, why));
            }
            let approved = tx.slot_set_state(slot.id, SlotState::Approved, None, None, now).await;
            approved.map_err(|error| match error {
                StoreError::Conflict(_) => not_there(),
                error => error.into(),
            })?;
            tx.node_recount(slot.node_id).await?;
            tx.operation_wake_queued(now, 8).await?;
            Ok(Answer::new(&current(tx, &seen).await?))
        })
    });
    Ok(commit.before(&before).wakes_engine().event(cx, EventType::SlotApproved, subject, told))
}
