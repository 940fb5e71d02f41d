//! What the platform asks of the engine by itself: releasing what has expired, and cleaning up on nodes that came back.

use muster_ids::{AllocationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::operation::AskedBy;
use muster_operations::allocation::{CLEAN, RELEASE};
use muster_operations::{Definition, Open, open};
use muster_store::{Lease, StoreError};
use serde_json::json;

use crate::Platform;

impl Platform {
    /// Opens what is due. Each in a transaction of its own, fenced by the sweeper's lease.
    pub(crate) async fn open_due(&self, lease: &Lease) -> Result<(), StoreError> {
        for id in self.store.allocation_expired(self.world.now()).await? {
            let deadline = self.options.timing.release;
            self.open_one(lease, id, &RELEASE, deadline, "it has expired").await?;
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
}

/// Protection holds against the clock as well as against people.
fn spared(allocation: &Allocation, definition: &Definition) -> bool {
    definition.kind == RELEASE.kind && allocation.protected
}
