//! The cells of an allocation that goes: they go with it, and each has evidence of its own for that.

use jiff::Timestamp;
use muster_ids::{TypedId as _, World};
use muster_model::cell::{Cell, CellState};
use muster_model::event::EventType;
use muster_model::witness::{Transition, Witness};
use muster_store::{Result, Tx};
use serde_json::json;

use crate::Told;
use crate::cell::path;

/// Moves `cells` to gone. `seen` is the evidence for their allocation's place, which they were in: what it says holds for each.
pub(super) async fn gone(
    tx: &mut Tx,
    told: &mut Told,
    world: &World,
    cells: &[Cell],
    seen: &Witness,
    now: Timestamp,
) -> Result<()> {
    for cell in cells {
        let witness = Witness {
            id: world.id(),
            subject_id: cell.id.uuid(),
            transition: Transition::Gone,
            incarnation: cell.incarnation,
            ..seen.clone()
        };
        tx.witness_insert(&witness).await?;
        let after = Cell {
            state: CellState::Gone,
            gone_witness_id: Some(witness.id),
            operation_id: seen.operation_id,
            ..cell.clone()
        };
        tx.cell_move(cell, &after, now).await?;
        tx.wanted_raise(cell.network_id, cell.node_id).await?;
        told.tasks_for.push(cell.node_id);
        let data = json!({"incarnation": cell.incarnation, "witness_id": witness.id});
        told.events.push((EventType::CellGone, path(&after), data));
    }
    Ok(())
}
