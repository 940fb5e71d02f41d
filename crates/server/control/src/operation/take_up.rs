//! What is on its way out on a node, and could not go on, goes on by itself as soon as the node is heard again, or somebody's
//! word stands in for it: nobody has to decide anything by that.

use muster_db::Tx;
use muster_engine::{definition, go_on};
use muster_model::event::EventType;
use muster_model::operation::Operation;
use serde_json::json;

use super::path;
use crate::Cx;

/// Takes these up; says how many were parked indeed. Engine and sealer are to be woken after the commit.
pub(crate) async fn take_up(cx: &Cx, tx: &mut Tx, parked: Vec<Operation>) -> muster_db::Result<usize> {
    let mut taken_up = 0;
    for parked in parked {
        let Some(mut fresh) = tx.operation_seize(parked.id).await? else { continue };
        let Some(kind) = definition(&fresh.kind) else { continue };
        if !go_on(&mut fresh, kind, cx.platform.engine.timing(), cx.now) {
            continue;
        }
        tx.operation_advance(&fresh, cx.now, None).await?;
        let data = json!({"kind": fresh.kind, "operation_id": fresh.id, "choice": "retry", "statement": ""});
        let told = (EventType::OperationUnblocked, path(&fresh), data);
        cx.tell(tx, fresh.scope(), None, vec![told]).await?;
        taken_up += 1;
    }
    Ok(taken_up)
}
