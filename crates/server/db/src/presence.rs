//! Presence of the devices of a node's slots. A slot with a missing device is quarantined, even for operations that wait for
//! the current holder to release it. When the device is found again, the slot returns to its former state unless it has
//! another problem.
//!
//! A slot that was released meanwhile does not return to its former state, because its device was never verified as wiped.
//! It stays quarantined, as after an operator's attestation, until it is wiped.

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, SlotId};
use muster_model::node::SlotState;

use crate::sql::{Row, args, both, statements};
use crate::{Result, StoreError, Tx};

statements! {
    SLOT_PRESENCE = both(
        "SELECT s.id, s.device, s.state, s.reason, s.quarantined_for, s.missing_since, c.allocation_id
         FROM slots s LEFT JOIN claims c ON c.slot_id = s.id AND c.released_at IS NULL
         WHERE s.node_id = $1 ORDER BY s.ordinal, s.id");
    SLOT_SET_PRESENCE = both(
        "UPDATE slots SET state = $2, reason = $3, quarantined_for = $4, missing_since = $5, updated_at = $6,
            version = version + 1
         WHERE id = $1");
}

const NOT_SEEN_CLEAN: &str = "returned while its device was missing; not verified to be clean";

/// A slot and the state of its device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    id: SlotId,
    device: String,
    state: SlotState,
    reason: Option<String>,
    quarantined_for: Option<AllocationId>,
    missing_since: Option<Timestamp>,
    held_by: Option<AllocationId>,
}

fn known(row: &Row) -> Result<Known> {
    Ok(Known {
        id: row.get(0)?,
        device: row.get(1)?,
        state: SlotState::parse(&row.get::<String>(2)?).ok_or(StoreError::Corrupt("a state of a slot"))?,
        reason: row.get(3)?,
        quarantined_for: row.get(4)?,
        missing_since: row.get(5)?,
        held_by: row.get(6)?,
    })
}

impl Known {
    /// Returns the slot's state when its device is missing. For a held slot it records the holder: if that allocation
    /// releases the slot before the device is back, its device was never verified as wiped.
    fn lost(&self, at: Timestamp) -> Known {
        let mut lost = Known { missing_since: Some(at), ..self.clone() };
        if self.state == SlotState::Approved {
            lost.state = SlotState::Quarantined;
            lost.quarantined_for = self.held_by;
        }
        lost
    }

    /// Returns the slot's state when its device is found again.
    fn found(&self) -> Known {
        let mut found = Known { missing_since: None, ..self.clone() };
        if self.state != SlotState::Quarantined || self.reason.is_some() {
            return found;
        }
        if self.quarantined_for == self.held_by {
            found.state = SlotState::Approved;
            found.quarantined_for = None;
        } else {
            found.reason = Some(NOT_SEEN_CLEAN.to_owned());
        }
        found
    }
}

/// The slots that became unusable or usable again after an inventory of their node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presence {
    /// Slots with devices that went missing: id and device.
    pub lost: Vec<(SlotId, String)>,
    /// Slots with devices that are present again: id and device.
    pub found: Vec<(SlotId, String)>,
}

impl Tx {
    /// Records which of a node's slots have their devices, given all devices found there. The node's row must be locked; it
    /// is recounted if the claimable slots changed.
    pub async fn slot_presence(
        &mut self,
        node: NodeId,
        devices: &BTreeSet<&str>,
        at: Timestamp,
    ) -> Result<Presence> {
        let mut presence = Presence::default();
        for row in self.fetch_all(&SLOT_PRESENCE, args![node]).await? {
            let before = known(&row)?;
            let after = match (devices.contains(before.device.as_str()), before.missing_since) {
                (false, None) if before.state != SlotState::Retired => before.lost(at),
                (true, Some(_)) => before.found(),
                _ => continue,
            };
            let args = args![
                after.id,
                after.state.as_str(),
                after.reason.as_deref(),
                after.quarantined_for,
                after.missing_since,
                at
            ];
            self.execute_one(&SLOT_SET_PRESENCE, args, StoreError::Gone("slot".to_owned())).await?;
            match (before.state, after.state) {
                (SlotState::Approved, SlotState::Quarantined) => presence.lost.push((after.id, after.device)),
                (SlotState::Quarantined, SlotState::Approved) => {
                    presence.found.push((after.id, after.device))
                }
                _ => {}
            }
        }
        if presence != Presence::default() {
            self.node_recount(node).await?;
        }
        Ok(presence)
    }
}
