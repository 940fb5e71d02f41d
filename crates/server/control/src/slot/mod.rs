//! Slots.

mod approve;
mod list;
mod quarantine;

pub use approve::approve;
pub use list::list;
pub use quarantine::quarantine;

use muster_db::{StoreError, Tx};
use muster_ids::SlotId;
use muster_model::node::Slot;

fn path(slot: &Slot) -> String {
    format!("/v1/slots/{}", slot.id)
}

/// Returns a slot as read in the transaction, after its node was locked.
async fn current(tx: &mut Tx, seen: &Slot) -> Result<Slot, StoreError> {
    let gone = |id: SlotId| StoreError::Gone(id.to_string());
    let mut slots = tx.slots_of(seen.node_id).await?.into_iter();
    slots.find(|slot| slot.id == seen.id).ok_or_else(|| gone(seen.id))
}
