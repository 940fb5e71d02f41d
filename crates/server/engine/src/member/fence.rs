//! Fences a member on an unreachable node before another replaces it or it is removed by force: its neighbours drop it, its
//! secrets are revoked, and its self-fencing period elapses. The other nodes of the network confirm that they have
//! reconciled.

use jiff::{SignedDuration, Timestamp};
use muster_db::{Result, Tx};
use muster_ids::TypedId as _;
use muster_model::cell::Cell;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberState};
use muster_model::node::Node;
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::self_fencing::self_fencing_wait;
use super::subject::{instance, manifest_of, path, running_version, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::cell_of;
use crate::{Effects, StepAction, StepOutcome};

pub(super) const FENCE: Step = Step {
    name: "fence",
    does: "fence the member, if its node is unreachable",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("the fence is lifted when its operation ends, or when its node is reachable and clean"),
};

/// Fences before a removal that does not wait for the node. A removal that is not forced waits for the node and does not
/// fence.
pub(super) const FENCE_IF_FORCED: Step = Step {
    name: "fence",
    does: "fence the member, if forced and its node is unreachable",
    verifies: true,
    run: |cx| Box::pin(run_if_forced(cx)),
    undo: Undo::None(
        "a removed member stays fenced; its node is admitted again when it is reachable and clean",
    ),
};

/// Returns the cell of a member that stays although the cell or the member is fenced.
pub(super) async fn cut_off(cx: &StepCx<'_>, member: &Member) -> Result<Option<Cell>> {
    let goes = matches!(member.state, MemberState::Removing | MemberState::Removed);
    let cell = cell_of(cx, member).await?.filter(|cell| !goes && !cell.state.is_final());
    Ok(cell.filter(|cell| cell.fenced || member.fenced))
}

/// Unfences a member: its neighbours accept it again. Its secrets were revoked; its next incarnation gets new ones.
pub(super) async fn let_in(
    tx: &mut Tx,
    effects: &mut Effects,
    member: &Member,
    cell: &Cell,
    now: Timestamp,
) -> Result<()> {
    tx.cell_let_in(cell.id, now).await?;
    if member.fenced {
        tx.member_move(member, &Member { fenced: false, ..member.clone() }, now).await?;
    }
    tx.bump_desired(cell.network_id, cell.node_id).await?;
    effects.tasks_for.push(cell.node_id);
    Ok(())
}

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    let Some(cell) = cell_of(cx, &member).await?.filter(|cell| !cell.state.is_final()) else {
        return Ok(StepOutcome::with_message("it has no cell").into());
    };
    let Some((node, since)) = lost_node(cx, &cell).await? else {
        let Some(cell) = cut_off(cx, &member).await? else {
            return Ok(StepOutcome::with_message("its node is reachable: nothing to fence").into());
        };
        let now = cx.now;
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let_in(tx, effects, &member, &cell, now).await?;
                Ok(StepOutcome::with_message("its node is reachable again: the fence is lifted"))
            })
        }));
    };
    cut(cx, member, cell, node, since).await
}

async fn run_if_forced(cx: &StepCx<'_>) -> Result<StepAction> {
    if !cx.operation.input.force {
        return Ok(StepOutcome::with_message("it is not forced: no member is fenced").into());
    }
    let member = subject(cx).await?;
    if member.fenced {
        return Ok(StepOutcome::with_message("it is already fenced").into());
    }
    let Some(cell) = cell_of(cx, &member).await?.filter(|cell| !cell.state.is_final()) else {
        return Ok(StepOutcome::with_message("it has no cell").into());
    };
    // A leaving member is not unfenced either if its node recovers meanwhile: its cell is destroyed.
    let Some((node, since)) = lost_node(cx, &cell).await? else {
        return Ok(StepOutcome::with_message("its node is reachable: nothing to fence").into());
    };
    cut(cx, member, cell, node, since).await
}

/// Cuts a member off whose node was lost after its operation had passed the fence. Returns the action until it is cut off.
pub(super) async fn ensure_cut_off(cx: &StepCx<'_>, member: &Member) -> Result<Option<StepAction>> {
    if member.fenced {
        return Ok(None);
    }
    let Some(cell) = cell_of(cx, member).await?.filter(|cell| !cell.state.is_final()) else {
        return Ok(None);
    };
    let Some((node, since)) = lost_node(cx, &cell).await? else { return Ok(None) };
    let now = cx.now;
    Ok(Some(match cut(cx, member.clone(), cell, node, since).await? {
        StepAction::Return(outcome) => outcome.into(),
        StepAction::Commit(write) => StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                Ok(match write(tx, effects).await? {
                    StepOutcome::Done { .. } => {
                        StepOutcome::Wait { reason: "it is cut off".to_owned(), until: now }
                    }
                    waits => waits,
                })
            })
        }),
    }))
}

/// Returns the node of a cell and since when it is unreachable, if it is.
async fn lost_node(cx: &StepCx<'_>, cell: &Cell) -> Result<Option<(Node, Timestamp)>> {
    let node = cx.store.node_lookup(cell.node_id).await?;
    Ok(node.and_then(|node| node.unreachable_since.map(|since| (node, since))))
}

async fn cut(
    cx: &StepCx<'_>,
    member: Member,
    cell: Cell,
    node: Node,
    since: Timestamp,
) -> Result<StepAction> {
    if !cell.fenced {
        let now = cx.now;
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                tx.cell_fence(cell.id, now).await?;
                tx.runtime_secret_revoke_of_cell(cell.id, cell.incarnation + 1, now).await?;
                // Its neighbours must drop it and are notified at once.
                effects.tasks_for.extend(tx.bump_desired(cell.network_id, cell.node_id).await?);
                Ok(StepOutcome::Wait {
                    reason: "waiting for its neighbours to remove it from their configuration".to_owned(),
                    until: now,
                })
            })
        }));
    }
    let behind = cx.store.nodes_behind(cell.network_id).await?;
    if !behind.is_empty() {
        let reason = format!("these nodes have not removed it yet: {}", behind.join(", "));
        return Ok(StepOutcome::Wait { reason, until: cx.now + SignedDuration::from_millis(200) }.into());
    }
    let instance = instance(cx, &member).await?;
    let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
    // A member that never worked is handled by the current release of its instance, which may lack its component.
    let declared = manifest.component(&member.component_key);
    if let Some(seconds) = declared.and_then(|component| component.stop_after_partition) {
        let limit = SignedDuration::from_secs(seconds.into());
        let until = since + self_fencing_wait(limit, cx.timing.silent);
        if cx.now < until {
            let reason = format!("the fenced member stops itself, by {until} at the latest");
            return Ok(StepOutcome::Wait { reason, until }.into());
        }
    }
    let witness = Witness {
        id: cx.env.id(),
        subject_id: member.id.uuid(),
        transition: Transition::Fenced,
        kind: WitnessKind::Witnessed,
        incarnation: member.incarnation,
        operation_id: Some(cx.operation.id),
        node_id: None,
        task_id: None,
        actor_id: None,
        checked: json!([{"what": "every reachable node of its network has removed it",
                             "node": node.name, "unreachable_since": since}]),
        result: json!({}),
        at: cx.now,
    };
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            // Lock the instance's row before the member's, as an assessment does.
            tx.instance_unwitnessed(member.instance_id, now).await?;
            tx.witness_insert(&witness).await?;
            let after = Member { fenced: true, ..member.clone() };
            tx.member_move(&member, &after, now).await?;
            let data = json!({"name": member.name, "node_id": node.id, "witness_id": witness.id});
            effects.events.push((EventType::MemberFenced, path(&after), data));
            Ok(StepOutcome::witnessed(witness.id, json!({"fenced": true})))
        })
    }))
}
