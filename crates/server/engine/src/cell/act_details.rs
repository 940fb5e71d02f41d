//! Details of a task in an existing cell outside of any engine step: an adapter requests it.

use muster_db::{Result, Store};
use muster_model::allocation::Allocation;
use muster_model::cell::Cell;
use muster_wire::cell::CellOrder;
use muster_wire::task::{CellAct, Details};

use crate::allocation::details;

/// Builds the task details for the agent: the same as for every task on a cell, without the cell's spec.
pub async fn act_details(
    store: &Store,
    cell: &Cell,
    allocation: &Allocation,
    act: CellAct,
) -> Result<Details> {
    let mut devices: Vec<String> =
        store.claims_of(allocation.id).await?.into_iter().map(|(_, device)| device).collect();
    devices.sort();
    let order = CellOrder {
        cell_id: cell.id,
        name: cell.name.clone(),
        incarnation: cell.incarnation,
        keep_state: false,
        spec: None,
        attachment: None,
        pull: None,
    };
    Ok(Details { cell: Some(order), act: Some(act), ..details(allocation, devices) })
}
