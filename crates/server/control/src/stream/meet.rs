//! Connects the two ends of a stream: requests the node's agent, and relays messages until the end.

use std::time::Duration;

use jiff::SignedDuration;
use muster_db::Result;
use muster_engine::StoredAct;
use muster_engine::cell::cell_target;
use muster_ids::{OperationId, TypedId as _};
use muster_model::task::{Task, TaskState};
use muster_wire::act::{Act, CellTarget, OwnedAllocation};
use muster_wire::stream::{Control, StreamOrder};

use super::end::End;
use super::guard::guard;
use super::join::Joined;
use super::relay::{Ended, Signs, relay};

/// Time limit for the node's agent to join.
const COME_WITHIN: Duration = Duration::from_secs(20);
/// Timeout for closing an end.
const GOODBYE: Duration = Duration::from_secs(3);

/// Runs a joined stream to its end. `user` is the end of the client that joined.
pub async fn meet(mut joined: Joined, mut user: End) {
    let signs = Signs::default();
    let ended = match called(&mut joined, &signs).await {
        Err(why) => Ended::Broken(why),
        Ok(mut node) => {
            let ended = tokio::select! {
                ended = relay(&mut user, &mut node, &signs) => ended,
                why = guard(&joined, &signs) => Ended::Broken(why),
            };
            // The agent stops the process when its socket closes, so close it first.
            let _ = tokio::time::timeout(GOODBYE, node.close()).await;
            ended
        }
    };
    let (stream, cell, correlation_id) = (joined.stream.id, joined.cell.id, &joined.cx.correlation_id);
    tracing::info!(%stream, %cell, correlation_id, ?ended, "a stream is over");
    let goodbye = async {
        if let Ended::Broken(why) = ended {
            // A client that has disconnected needs no reason.
            let _ = user.say(&Control::Failed { why }).await;
        }
        user.close().await;
    };
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
}

/// Requests the node's agent and waits until it joins.
async fn called(joined: &mut Joined, signs: &Signs) -> std::result::Result<End, String> {
    if let Err(error) = queue(joined).await {
        tracing::warn!(%error, "a stream could not be requested from the node");
        return Err("the server cannot reach the node now: try again".to_owned());
    }
    joined.cx.platform.fleet.wake(joined.cell.node_id);
    // Splits the borrow: this waits on the seat while the guard reads the rest.
    let (_, nobody) = tokio::sync::oneshot::channel();
    let comes = std::mem::replace(&mut joined.seat.comes, nobody);
    let come = tokio::select! {
        come = tokio::time::timeout(COME_WITHIN, comes) => come,
        why = guard(joined, signs) => {
            let _ = expire(joined).await;
            return Err(why);
        }
    };
    match come {
        Ok(Ok(node)) => Ok(node),
        Ok(Err(_)) => Err("the node connected and disconnected: try again".to_owned()),
        Err(_) => {
            let _ = expire(joined).await;
            Err("the node did not answer: is it reachable? operators run `muster node get`".to_owned())
        }
    }
}

async fn queue(joined: &Joined) -> Result<()> {
    let platform = &joined.cx.platform;
    let order = StreamOrder {
        stream_id: joined.stream.id,
        allocation: OwnedAllocation {
            allocation_id: joined.cell.allocation_id,
            tenant_id: joined.cell.tenant_id,
            project_id: joined.cell.project_id,
        },
        cell: CellTarget { incarnation: joined.stream.incarnation, ..cell_target(&joined.cell) },
        address: platform.options.nodes_advertise.clone(),
        what: joined.what.clone(),
    };
    let StoredAct { kind, allocation_id, payload } = StoredAct::from_act(&Act::Stream(Box::new(order)))?;
    let now = platform.env.now();
    let within = SignedDuration::try_from(COME_WITHIN).unwrap_or_default();
    let task = Task {
        id: platform.env.id(),
        node_id: joined.cell.node_id,
        operation_id: OperationId::from_uuid(joined.stream.id.uuid()),
        key: "stream".to_owned(),
        kind,
        allocation_id,
        incarnation: 0,
        generation: 0,
        payload,
        state: TaskState::Queued,
        result: None,
        message: None,
        correlation_id: joined.cx.correlation_id.clone(),
        queued_at: now,
        delivered_at: None,
        finished_at: None,
        expires_at: now + within,
    };
    let mut tx = platform.store.begin().await?;
    tx.task_queue(&task).await?;
    tx.commit().await
}

/// Expires the request: an agent that polls later does not receive it.
async fn expire(joined: &Joined) -> Result<()> {
    let platform = &joined.cx.platform;
    let mut tx = platform.store.begin().await?;
    tx.task_expire_of(OperationId::from_uuid(joined.stream.id.uuid()), platform.env.now()).await?;
    tx.commit().await
}
