//! What the platform asks of the engine by itself: releasing what has expired, and cleaning up on nodes that came back.

use muster_ids::{AllocationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::instance::Instance;
use muster_model::operation::AskedBy;
use muster_operations::allocation::{CLEAN, RELEASE};
use muster_operations::instance::DECOMMISSION;
use muster_operations::{Definition, Open, open, supersede};
use muster_store::{Lease, StoreError};
use serde_json::json;

use crate::Platform;
use crate::instance::decommission::{WITHIN, in_the_way};
use crate::operation::part_of;

impl Platform {
    /// Opens what is due. Each in a transaction of its own, fenced by the sweeper's lease.
    pub(crate) async fn open_due(&self, lease: &Lease) -> Result<(), StoreError> {
        for id in self.store.allocation_expired(self.world.now()).await? {
            let deadline = self.options.timing.release;
            self.open_one(lease, id, &RELEASE, deadline, "it has expired").await?;
        }
        for instance in self.store.instance_expired(self.world.now(), AT_ONCE).await? {
            self.open_decommission(lease, &instance).await?;
        }
        for node in self.store.quarantined_nodes().await? {
            for id in self.store.quarantined_on(node).await? {
                let deadline = self.options.timing.release;
                self.open_one(lease, id, &CLEAN, deadline, "its node is back").await?;
            }
        }
        Ok(())
    }

    async fn open_one(
        &self,
        lease: &Lease,
        id: AllocationId,
        definition: &'static Definition,
        within: jiff::SignedDuration,
        why: &str,
    ) -> Result<(), StoreError> {
        let now = self.world.now();
        let Some(allocation) = self.store.allocation_lookup(id).await? else { return Ok(()) };
        // Whatever is under way goes first; the next round finds it done.
        if !self.store.operation_open_on(id.uuid()).await?.is_empty() || spared(&allocation, definition) {
            return Ok(());
        }
        // An instance that is in it outlives the clock: it is taken down as a whole, or not at all.
        if definition.kind == RELEASE.kind && !self.store.member_in(id).await?.is_empty() {
            return Ok(());
        }
        let operation = open(
            definition,
            Open {
                id: self.world.id(),
                scope: allocation.scope(),
                subject_kind: "allocation",
                subject_id: id.uuid(),
                subject_name: allocation.name.clone(),
                touches: vec![id.uuid()],
                shares: Vec::new(),
                asked_by: AskedBy {
                    kind: "platform".to_owned(),
                    id: "platform".to_owned(),
                    name: why.to_owned(),
                },
                correlation_id: muster_model::hex::encode(&self.world.bytes::<16>()),
                input: json!({"reason": why}),
                deadline_at: now + within,
                parent_id: None,
                now,
            },
        );
        let mut tx = self.store.begin().await?;
        tx.lease_extend(lease, now).await?;
        tx.operation_open(&operation).await?;
        tx.commit().await?;
        tracing::info!(operation_id = %operation.id, kind = definition.kind, allocation_id = %id, why, "opened");
        self.engine.wake.notify_one();
        Ok(())
    }

    /// Takes an instance down whose time is over. What is under way on it is taken over, as by a person's order.
    async fn open_decommission(&self, lease: &Lease, instance: &Instance) -> Result<(), StoreError> {
        let (now, id) = (self.world.now(), instance.id);
        let touching = self.store.operation_touching(id.uuid()).await?;
        if touching.iter().any(|operation| operation.kind == DECOMMISSION.kind) {
            return Ok(());
        }
        let why = "it has expired";
        let mut operation = open(
            &DECOMMISSION,
            Open {
                id: self.world.id(),
                scope: instance.scope(),
                subject_kind: "instance",
                subject_id: id.uuid(),
                subject_name: instance.name.clone(),
                touches: vec![id.uuid()],
                shares: Vec::new(),
                asked_by: AskedBy {
                    kind: "platform".to_owned(),
                    id: "platform".to_owned(),
                    name: why.to_owned(),
                },
                correlation_id: muster_model::hex::encode(&self.world.bytes::<16>()),
                input: json!({"force": false, "reason": why}),
                deadline_at: now + WITHIN,
                parent_id: None,
                now,
            },
        );
        operation.items = self.store.member_living(id).await?.iter().map(part_of).collect();
        let mut tx = self.store.begin().await?;
        tx.lease_extend(lease, now).await?;
        for old in in_the_way(instance, touching) {
            supersede(&mut tx, &old, &mut operation, now).await?;
        }
        tx.operation_open(&operation).await?;
        // Somebody may have protected it, or given it more time, since it was found.
        let held = tx.instance_hold(id).await?;
        if held.is_none_or(|held| held.protected || held.expires_at.is_none_or(|time| time > now)) {
            tx.rollback().await;
            return Ok(());
        }
        tx.commit().await?;
        tracing::info!(operation_id = %operation.id, kind = operation.kind, instance_id = %id, why, "opened");
        self.engine.wake.notify_one();
        Ok(())
    }
}

/// So many instances are taken up in one round.
const AT_ONCE: i64 = 50;

/// Protection holds against the clock as well as against people.
fn spared(allocation: &Allocation, definition: &Definition) -> bool {
    definition.kind == RELEASE.kind && allocation.protected
}
