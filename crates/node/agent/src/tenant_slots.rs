//! Slots that tenants share: one with much work leaves some to the others.

use std::collections::HashMap;

use muster_ids::TenantId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Reports whether a tenant with so many slots may take one more of which so many are used: three quarters at most, and the last
/// free one only if it has none. So another tenant's first work never waits for a tenant's many.
pub(crate) const fn has_slot_for_tenant(of_tenant: usize, used: usize, slots: usize) -> bool {
    let free = slots.saturating_sub(used);
    free > 0 && (of_tenant == 0 || (free > 1 && of_tenant < slots - slots / 4))
}

/// Slots for which work waits.
#[derive(Debug)]
pub(crate) struct TenantSlots {
    slots: usize,
    used: Mutex<HashMap<Option<TenantId>, usize>>,
    freed: Notify,
}

impl TenantSlots {
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots, used: Mutex::default(), freed: Notify::new() }
    }

    /// Waits for a slot.
    pub(crate) async fn acquire(&self, tenant: Option<TenantId>) -> TenantSlot<'_> {
        loop {
            // Registered before the attempt, so that a slot freed in between is noticed.
            let freed = self.freed.notified();
            if let Some(slot) = self.try_acquire(tenant) {
                return slot;
            }
            freed.await;
        }
    }

    fn try_acquire(&self, tenant: Option<TenantId>) -> Option<TenantSlot<'_>> {
        let mut used = self.used.lock();
        let all = used.values().sum();
        let of_tenant = used.get(&tenant).copied().unwrap_or_default();
        has_slot_for_tenant(of_tenant, all, self.slots).then(|| {
            used.insert(tenant, of_tenant + 1);
            TenantSlot { slots: self, tenant }
        })
    }
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub(crate) struct TenantSlot<'s> {
    slots: &'s TenantSlots,
    tenant: Option<TenantId>,
}

impl Drop for TenantSlot<'_> {
    fn drop(&mut self) {
        {
            let mut used = self.slots.used.lock();
            if let Some(count) = used.get_mut(&self.tenant) {
                *count -= 1;
                if *count == 0 {
                    used.remove(&self.tenant);
                }
            }
        }
        self.slots.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_ids::Env;

    use super::*;

    #[tokio::test]
    async fn a_tenant_with_much_work_leaves_a_slot_and_the_next_goes_to_a_tenant_without() {
        let env = Env::for_tests(1);
        let [greedy, modest, late]: [Option<TenantId>; 3] = [(); 3].map(|()| Some(env.id()));
        let slots = TenantSlots::new(4);
        let mut held = Vec::new();
        while let Some(slot) = slots.try_acquire(greedy) {
            held.push(slot);
        }
        assert_eq!(held.len(), 3);
        let second = slots.try_acquire(modest).expect("a slot for another tenant");
        let mut waits = Box::pin(slots.acquire(late));
        let mut more = Box::pin(slots.acquire(greedy));
        let wait = Duration::from_millis(20);
        assert!(tokio::time::timeout(wait, &mut waits).await.is_err());
        assert!(tokio::time::timeout(wait, &mut more).await.is_err());
        held.pop();
        let third = tokio::time::timeout(wait, waits).await.expect("it has none");
        assert!(tokio::time::timeout(wait, &mut more).await.is_err());
        drop((second, third));
        tokio::time::timeout(wait, more).await.expect("there is room again");
        drop(held);
        assert!(slots.used.lock().is_empty());
    }
}
