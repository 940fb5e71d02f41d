//! Automatic resumption of blocked removals on a node, as soon as the node is reachable again or an operator's attestation
//! replaces its evidence: no decision is needed.

use muster_db::Tx;
use muster_model::event::EventType;
use muster_model::operation::Operation;
use muster_model::origin::Origin;
use serde_json::json;

use super::path;
use crate::Cx;

/// Resumes these operations; returns how many were actually blocked. The caller wakes engine and sealer after the commit.
pub(crate) async fn resume_blocked(
    cx: &Cx,
    tx: &mut Tx,
    blocked: Vec<Operation>,
) -> muster_db::Result<usize> {
    let mut taken_up = 0;
    for blocked in blocked {
        let resumed =
            muster_engine::resume_blocked(tx, blocked.id, cx.platform.engine.timing(), cx.now).await?;
        let Some(fresh) = resumed else { continue };
        let data = json!({"kind": fresh.kind, "operation_id": fresh.id, "action": "retry", "statement": ""});
        let told = (EventType::OperationResolved, path(&fresh), data);
        cx.outbox_append(
            tx,
            &Origin { timeline: fresh.timeline, ..cx.origin(fresh.scope()) },
            None,
            vec![told],
        )
        .await?;
        taken_up += 1;
    }
    Ok(taken_up)
}
