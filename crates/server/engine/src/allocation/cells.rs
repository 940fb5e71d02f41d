//! Ends the cells of a released allocation, each with evidence of its own.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::{Env, MemberId, TypedId as _};
use muster_model::cell::{Cell, CellState};
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::witness::{Transition, Witness};
use serde_json::json;

use crate::Effects;
use crate::cell::path;
use crate::member::path as member_path;

/// Moves `cells` to gone. `seen` is the evidence for their allocation's sandbox, and holds for each cell in it.
pub(super) async fn gone(
    tx: &mut Tx,
    effects: &mut Effects,
    env: &Env,
    cells: &[Cell],
    seen: &Witness,
    now: Timestamp,
) -> Result<()> {
    for cell in cells {
        let witness = Witness {
            id: env.id(),
            subject_id: cell.id.uuid(),
            transition: Transition::Destroyed,
            incarnation: cell.incarnation,
            ..seen.clone()
        };
        tx.witness_insert(&witness).await?;
        let after = Cell {
            state: CellState::Destroyed,
            destroyed_witness_id: Some(witness.id),
            operation_id: seen.operation_id,
            ..cell.clone()
        };
        tx.cell_move(cell, &after, now).await?;
        tx.bump_desired(cell.network_id, cell.node_id).await?;
        effects.tasks_for.push(cell.node_id);
        let data = json!({"incarnation": cell.incarnation, "witness_id": witness.id});
        effects.events.push((EventType::CellDestroyed, path(&after), data));
        if let Some(id) = cell.member_id {
            ended(tx, effects, id, cell, now).await?;
        }
    }
    Ok(())
}

/// Fails a member that was active, draining or drained: its cell is gone. A member being removed or added is handled by that
/// operation.
async fn ended(tx: &mut Tx, effects: &mut Effects, id: MemberId, cell: &Cell, now: Timestamp) -> Result<()> {
    let Some(member) = tx.member_now(id).await?.filter(|member| member.cell_id == Some(cell.id)) else {
        return Ok(());
    };
    if !matches!(member.state, MemberState::Active | MemberState::Draining | MemberState::Drained) {
        return Ok(());
    }
    let reason = MemberFailure::CellEnded;
    let after = Member {
        state: MemberState::Failed,
        failure_reason: Some(reason),
        message: Some("its allocation ended, and its cell with it".to_owned()),
        ..member.clone()
    };
    tx.member_move(&member, &after, now).await?;
    tx.instance_schedule_reconcile(member.instance_id, now).await?;
    let data = json!({"name": member.name, "component_key": member.component_key, "reason": reason,
                      "advice": reason.advice()});
    effects.events.push((EventType::MemberFailed, member_path(&after), data));
    Ok(())
}
