//! The naive baseline: read every free slot of every node, run the same planner over all of them, claim.
//!
//! It has SQL of its own, because the product never reads that much.

use std::collections::BTreeMap;

use muster_db::{Hold, Result, Store};
use muster_engine::Placed;
use muster_ids::{ClaimId, Env, NodeId, SlotId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::node::Capacity;
use muster_model::placement::{Ask, Fit, FreeSlot, choose_slots, cost};
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

const EVERYTHING: &str = "
    SELECT n.id, n.holders = 0, n.cpus_free, n.memory_mb_free, n.disk_mb_free, s.id, s.ordinal, s.island, s.numa
    FROM nodes n LEFT JOIN slots s ON s.node_id = n.id AND s.state = 'approved'
        AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.slot_id = s.id AND c.released_at IS NULL)
    WHERE n.state = 'ready' AND NOT n.exclusive";

struct Seen {
    whole: bool,
    room: Capacity,
    free: Vec<FreeSlot>,
}

async fn everything(pool: &PgPool) -> Result<BTreeMap<NodeId, Seen>> {
    let mut nodes = BTreeMap::<NodeId, Seen>::new();
    for row in sqlx::query(EVERYTHING).fetch_all(pool).await? {
        let (cpus, memory_mb, disk_mb) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        let room = Capacity { gpus: 0, cpus, memory_mb, disk_mb };
        let whole = row.try_get(1)?;
        let node = nodes.entry(NodeId::from_uuid(row.try_get(0)?));
        let seen = node.or_insert_with(|| Seen { whole, room, free: Vec::new() });
        if let Some(id) = row.try_get::<Option<Uuid>, _>(5)? {
            let (ordinal, island, numa) = (row.try_get(6)?, row.try_get(7)?, row.try_get(8)?);
            seen.free.push(FreeSlot { id: SlotId::from_uuid(id), ordinal, island, numa });
        }
    }
    Ok(nodes)
}

/// Returns the best node of all, by the documented order.
fn best<'a>(nodes: &'a BTreeMap<NodeId, Seen>, need: &Capacity, ask: &Ask) -> Option<(NodeId, &'a Seen)> {
    let need = Capacity { gpus: 0, ..*need };
    let roomy = nodes.iter().filter(|(_, seen)| need.within(&seen.room));
    let costs = roomy.filter_map(|(id, seen)| Some((cost(Fit::of(&seen.free, seen.whole), ask)?, *id, seen)));
    costs.min_by_key(|(cost, id, _)| (*cost, *id)).map(|(_, id, seen)| (id, seen))
}

/// Decides and claims. Nothing is locked while it decides; the unique index catches a lost race.
pub(crate) async fn place(
    pool: &PgPool,
    store: &Store,
    env: &Env,
    allocation: &Allocation,
) -> Result<Option<Placed>> {
    let gpus = u8::try_from(allocation.capacity.gpus).unwrap_or(u8::MAX);
    let ask = Ask { gpus, exclusive: false, strategy: allocation.strategy };
    let nodes = everything(pool).await?;
    let Some((node, seen)) = best(&nodes, &allocation.capacity, &ask) else { return Ok(None) };
    let Some(slots) = choose_slots(&seen.free, gpus) else { return Ok(None) };
    let left: Vec<FreeSlot> = seen.free.iter().filter(|slot| !slots.contains(&slot.id)).copied().collect();
    let claims: Vec<ClaimId> = slots.iter().map(|_| env.id()).collect();
    let hold = Hold {
        node,
        allocation: allocation.id,
        slots,
        amount: allocation.capacity,
        holders: 1,
        exclusive: false,
        fit: Fit::of(&left, false),
        at: env.now(),
    };
    let mut tx = store.begin().await?;
    tx.hold(&hold, &claims).await?;
    tx.commit().await?;
    Ok(Some(Placed { node, slots: hold.slots, held: hold.amount }))
}
