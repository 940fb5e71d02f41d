//! Restarts cells that ended by themselves, according to their policy: after a reboot of their node, or the death of their
//! first process.
//!
//! The server does this instead of the agent, because it assigns incarnations: a cell restarted under its old number would
//! be indistinguishable from the old one. So each restart is an operation with its evidence. Each ended incarnation is
//! decided once (the primary key of `cell_restarts`), and each cell has a budget.

use std::sync::Arc;

use jiff::SignedDuration;
use muster_db::{StoreError, Tx};
use muster_engine::cell::RESTART;
use muster_engine::{OperationRequest, accept};
use muster_ids::{CellId, OperationId, TypedId as _};
use muster_model::audit::Actor;
use muster_model::cell::Cell;
use muster_model::event::{EventType, NewEvent, Timeline};
use muster_model::operation_input::OperationInput;
use muster_model::repair::CELL_RESTARTS;
use serde_json::json;

use crate::{Cx, Platform, cell};

/// Maximum number of restarts per round; the others follow in the next.
const AT_ONCE: i64 = 100;

/// Restart decision for an ended incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartDecision {
    /// Restart it now.
    Restart,
    /// Its budget has just been spent.
    Suspend,
    /// It was decided before.
    Decided,
}

/// Decides about an ended incarnation, once.
pub(super) async fn decide(
    cx: &Cx,
    tx: &mut Tx,
    id: CellId,
    incarnation: i64,
) -> muster_db::Result<RestartDecision> {
    let spent = tx.cell_restart_count(id, cx.now - CELL_RESTARTS.window).await? >= CELL_RESTARTS.most;
    Ok(match tx.cell_restart_decide(id, incarnation, !spent, cx.now).await? {
        false => RestartDecision::Decided,
        true if spent => RestartDecision::Suspend,
        true => RestartDecision::Restart,
    })
}

/// Returns the requester of a restart.
pub(super) fn asked_by_policy() -> Actor {
    Actor::platform("restart")
}

impl Platform {
    /// Restarts ended bare cells according to their policy. Members' cells are restarted with their instance.
    pub(super) async fn restart_cells(self: &Arc<Self>) -> Result<(), StoreError> {
        for ended in self.store.cell_to_restart(AT_ONCE).await? {
            let cx = self.own_cx();
            let mut tx = self.store.begin().await?;
            match restart(&cx, &mut tx, &ended).await {
                Ok(opened) => {
                    tx.commit().await?;
                    self.sealer_wake.notify_one();
                    if opened {
                        self.engine.wake.notify_one();
                    }
                }
                // One failed restart must not delay the others.
                Err(error) => {
                    tx.rollback().await;
                    tracing::warn!(cell = %ended.id, %error, "an ended cell could not be restarted; retrying");
                }
            }
        }
        Ok(())
    }
}

async fn restart(cx: &Cx, tx: &mut Tx, ended: &Cell) -> muster_db::Result<bool> {
    if !tx.operations_locking_now(ended.id.uuid()).await?.is_empty() {
        return Ok(false);
    }
    let (opened, told): (bool, NewEvent) = match decide(cx, tx, ended.id, ended.incarnation).await? {
        RestartDecision::Decided => return Ok(false),
        RestartDecision::Suspend => {
            let data = json!({"name": ended.name, "incarnation": ended.incarnation,
                              "advice": format!("muster cell restart {}", ended.name)});
            (false, (EventType::CellRestartSuspended, cell::path(ended), data))
        }
        RestartDecision::Restart => (true, open_restart(cx, tx, ended).await?),
    };
    cx.outbox_append_as_platform(tx, ended.scope(), Timeline::default(), vec![told]).await?;
    Ok(opened)
}

async fn open_restart(cx: &Cx, tx: &mut Tx, ended: &Cell) -> muster_db::Result<NewEvent> {
    let reason = "its restart policy is `always`, and it ended";
    let within: SignedDuration = cx.platform.engine.timing().create;
    let opened = accept(
        &RESTART,
        OperationRequest {
            id: cx.platform.env.id::<OperationId>(),
            scope: ended.scope(),
            subject_kind: "cell",
            subject_id: ended.id.uuid(),
            subject_name: ended.name.clone(),
            exclusive_locks: vec![ended.id.uuid()],
            shared_locks: Vec::new(),
            timeline: Timeline::default(),
            asked_by: asked_by_policy(),
            correlation_id: cx.correlation_id.clone(),
            input: OperationInput::because(reason),
            deadline_at: cx.now + within,
            parent_id: None,
            now: cx.now,
        },
    );
    tx.operation_open(&opened).await?;
    let data = json!({"name": ended.name, "kind": opened.kind, "operation_id": opened.id, "reason": reason,
                      "asked_by": "platform"});
    Ok((EventType::OperationAccepted, cell::path(ended), data))
}
