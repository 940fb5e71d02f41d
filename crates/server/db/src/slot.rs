//! Slots, the claims on them, and the free capacity of nodes.

use jiff::Timestamp;
use muster_ids::{AllocationId, ClaimId, NodeId, SlotId, TypedId as _};
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::placement::{Ask, Fit, FreeNode, FreeSlot, Room};
use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::sql::{Row, Value, args, both, pair, statements};
use crate::{Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "s.id, s.node_id, s.kind, s.device, s.ordinal, s.model, s.memory_mb, s.numa, s.island, s.state,
         COALESCE(s.reason, CASE WHEN s.state = 'quarantined' THEN 'its device no longer exists' END),
         c.allocation_id, s.version
         FROM slots s LEFT JOIN claims c ON c.slot_id = s.id AND c.released_at IS NULL"
    };
}

statements! {
    SLOT_LIST = both(concat!("SELECT ", columns!(), " WHERE s.node_id = $1 ORDER BY s.ordinal, s.id"));
    SLOT_GET = both(concat!("SELECT ", columns!(), " WHERE s.id = $1"));
    SLOT_UPSERT = both(
        "INSERT INTO slots (id, node_id, kind, device, ordinal, model, memory_mb, numa, island, state, created_at, updated_at,
                            version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, 1)
         ON CONFLICT (node_id, device) DO UPDATE SET ordinal = excluded.ordinal, model = excluded.model,
            memory_mb = excluded.memory_mb, numa = excluded.numa, island = excluded.island, updated_at = excluded.updated_at,
            state = CASE WHEN slots.state = 'discovered' OR slots.state = 'retired' THEN excluded.state ELSE slots.state END,
            version = slots.version + 1");
    SLOT_SET_STATE = both(
        "UPDATE slots SET state = $2, reason = $3, quarantined_for = $4, updated_at = $5, version = version + 1
         WHERE id = $1 AND state <> 'retired'");
    SLOT_QUARANTINE_OF = both(
        "UPDATE slots SET state = 'quarantined', reason = $2, quarantined_for = $1, updated_at = $3, version = version + 1
         WHERE reason IS NULL
            AND id IN (SELECT slot_id FROM claims WHERE allocation_id = $1 AND released_at IS NULL)");
    // A missing device cannot be verified as clean; it stays quarantined until it is found again.
    SLOT_CLEAN_OF = both(
        "UPDATE slots SET state = 'approved', reason = $2, quarantined_for = $3, updated_at = $4, version = version + 1
         WHERE state = 'quarantined' AND quarantined_for = $1 AND missing_since IS NULL");
    // Only allocations that have ended: slots of a live allocation must not be wiped.
    SLOT_QUARANTINED_ON = both(
        "SELECT DISTINCT s.quarantined_for FROM slots s JOIN allocations a ON a.id = s.quarantined_for
         WHERE s.node_id = $1 AND s.state = 'quarantined' AND s.missing_since IS NULL
            AND a.state IN ('released', 'failed')");
    NODE_QUARANTINED = both(
        "SELECT DISTINCT s.node_id FROM slots s JOIN nodes n ON n.id = s.node_id JOIN allocations a ON a.id = s.quarantined_for
         WHERE s.state = 'quarantined' AND s.missing_since IS NULL AND n.unreachable_since IS NULL AND n.retired_at IS NULL
            AND a.state IN ('released', 'failed')");
    CLAIMS_OF_ALLOCATION = both(
        "SELECT s.id, s.device FROM claims c JOIN slots s ON s.id = c.slot_id
         WHERE c.allocation_id = $1 AND c.released_at IS NULL ORDER BY s.ordinal");
    SLOTS_QUARANTINED_FOR = both(
        "SELECT id, device FROM slots WHERE quarantined_for = $1 AND missing_since IS NULL ORDER BY ordinal");
    // All distinct fits of ready nodes, by a loose index scan (one probe per fit) instead of a full index scan.
    FITS = both(
        "WITH RECURSIVE kinds (fit) AS (
            SELECT MIN(fit) FROM nodes WHERE state = 'ready' AND NOT exclusive
            UNION ALL
            SELECT (SELECT MIN(fit) FROM nodes WHERE state = 'ready' AND NOT exclusive AND fit > kinds.fit) FROM kinds
            WHERE kinds.fit IS NOT NULL)
         SELECT fit FROM kinds WHERE fit IS NOT NULL");
    // Selects the node with the lowest id among the given fits, with its free slots. The index yields the first node of each
    // fit; rows locked by another worker are skipped. The lock is on the newest version of the node's row, but slots and
    // claims are read from the statement's snapshot: the last column reports whether the two agree.
    // Nodes without a heartbeat since $5 are skipped, whatever their state. That subquery is inside the CASE to keep
    // PostgreSQL from turning it into a join, which would lose the index order.
    // Two more hints steer the planner to the index. The range of one value is in index order; with `fit = kinds.fit`
    // PostgreSQL may scan nodes by id, which for a rare fit scans them all. The CASE has an estimated selectivity of one
    // half; from three plain comparisons the planner expects almost no rows, and would read and sort all nodes of a fit.
    CANDIDATE = pair(
        "WITH chosen AS (
            SELECT n.* FROM unnest($1::bigint[]) AS kinds (fit) CROSS JOIN LATERAL (
                SELECT id, cpus_total, memory_mb_total, disk_mb_total, xmin AS written_by FROM nodes
                WHERE state = 'ready' AND NOT exclusive AND fit >= kinds.fit AND fit <= kinds.fit
                    AND CASE WHEN cpus_free >= $2 AND memory_mb_free >= $3 AND disk_mb_free >= $4
                        AND (SELECT h.seen_at FROM node_heartbeats h WHERE h.node_id = nodes.id) >= $5 THEN true ELSE false END
                ORDER BY fit, id LIMIT 1 FOR UPDATE SKIP LOCKED) n
            ORDER BY n.id LIMIT 1)
         SELECT n.id, n.cpus_total, n.memory_mb_total, n.disk_mb_total, s.id, s.ordinal, s.island, s.numa,
                (SELECT o.xmin = n.written_by FROM nodes o WHERE o.id = n.id)
         FROM chosen n LEFT JOIN slots s ON s.node_id = n.id AND s.state = 'approved'
            AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.slot_id = s.id AND c.released_at IS NULL)
         ORDER BY s.ordinal",
        "WITH chosen AS (
            SELECT (SELECT id FROM nodes WHERE state = 'ready' AND NOT exclusive AND fit = kinds.value
                        AND cpus_free >= $2 AND memory_mb_free >= $3 AND disk_mb_free >= $4
                        AND (SELECT h.seen_at FROM node_heartbeats h WHERE h.node_id = nodes.id) >= $5 ORDER BY id LIMIT 1) AS id
            FROM json_each($1) AS kinds)
         SELECT n.id, n.cpus_total, n.memory_mb_total, n.disk_mb_total, s.id, s.ordinal, s.island, s.numa, 1
         FROM (SELECT id FROM chosen WHERE id IS NOT NULL ORDER BY id LIMIT 1) f JOIN nodes n ON n.id = f.id
         LEFT JOIN slots s ON s.node_id = n.id AND s.state = 'approved'
            AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.slot_id = s.id AND c.released_at IS NULL)
         ORDER BY s.ordinal");
    // Any node with enough capacity, from one snapshot. Fits sort by whether the node is whole and then by free GPUs: $1 up
    // to $2 are partially held nodes, $3 and up are whole nodes.
    NODE_WITH_ROOM = both(
        "SELECT id FROM (
            SELECT id FROM nodes WHERE state = 'ready' AND NOT exclusive AND fit >= $1 AND fit < $2
                AND CASE WHEN cpus_free >= $4 AND memory_mb_free >= $5 AND disk_mb_free >= $6
                    AND (SELECT h.seen_at FROM node_heartbeats h WHERE h.node_id = nodes.id) >= $7 THEN true ELSE false END
            ORDER BY fit, id LIMIT 1) held
         UNION ALL
         SELECT id FROM (
            SELECT id FROM nodes WHERE state = 'ready' AND NOT exclusive AND fit >= $3
                AND CASE WHEN cpus_free >= $4 AND memory_mb_free >= $5 AND disk_mb_free >= $6
                    AND (SELECT h.seen_at FROM node_heartbeats h WHERE h.node_id = nodes.id) >= $7 THEN true ELSE false END
            ORDER BY fit, id LIMIT 1) whole");
    // The same request for nodes that are ready but silent: not eligible for placement, but not lost yet.
    NODES_SILENT_WITH_ROOM = both(
        "SELECT COUNT(*), MAX(h.seen_at) FROM nodes LEFT JOIN node_heartbeats h ON h.node_id = nodes.id
         WHERE state = 'ready' AND NOT exclusive AND ((fit >= $1 AND fit < $2) OR fit >= $3)
            AND cpus_free >= $4 AND memory_mb_free >= $5 AND disk_mb_free >= $6 AND (h.seen_at IS NULL OR h.seen_at < $7)");
    NODE_LOCK = pair("SELECT holders, exclusive FROM nodes WHERE id = $1 FOR UPDATE",
        "SELECT holders, exclusive FROM nodes WHERE id = $1");
    NODE_HOLD = both(
        "UPDATE nodes SET gpus_free = gpus_free - $2, cpus_free = cpus_free - $3, memory_mb_free = memory_mb_free - $4,
            disk_mb_free = disk_mb_free - $5, holders = holders + $6, exclusive = $7, fit = $8
         WHERE id = $1");
    NODE_HAS_ROOM = both(
        "SELECT id FROM nodes WHERE id = $1 AND cpus_free >= $2 AND memory_mb_free >= $3 AND disk_mb_free >= $4");
    // GPUs are recounted from the slots; the other resources are returned by `NODE_HOLD` with negative amounts.
    NODE_RECOUNT = both(
        "UPDATE nodes SET gpus_total = $2, gpus_free = $3, fit = $4 WHERE id = $1");
    CLAIM_INSERT = pair(
        "INSERT INTO claims (id, slot_id, allocation_id, claimed_at)
         SELECT id, slot_id, $3, $4 FROM unnest($1::uuid[], $2::uuid[]) AS r (id, slot_id)",
        "INSERT INTO claims (id, slot_id, allocation_id, claimed_at)
         SELECT value ->> 0, value ->> 1, $3, $4 FROM json_each($1) WHERE $2 IS NULL");
    CLAIM_RELEASE = both(
        "UPDATE claims SET released_at = $2 WHERE allocation_id = $1 AND released_at IS NULL");
    CLAIM_RELEASE_SLOT = both(
        "UPDATE claims SET released_at = $3 WHERE allocation_id = $1 AND slot_id = $2 AND released_at IS NULL");
    #[cfg(feature = "test-api")]
    CAPACITY_BY_FIT = both(
        "SELECT fit, COUNT(*), MAX(cpus_free), MAX(memory_mb_free), MAX(disk_mb_free) FROM nodes
         WHERE state = 'ready' AND NOT exclusive GROUP BY fit ORDER BY fit");
    // For a request of $1 CPUs, $2 memory and $3 disk, among nodes with a heartbeat since $4: the number of nodes that
    // satisfy all of it, and for each resource the maximum among nodes that satisfy the other two.
    CAPACITY_ROOMS = both(
        "SELECT fit, SUM(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 AND disk_mb_free >= $3 THEN 1 ELSE 0 END),
                MAX(CASE WHEN memory_mb_free >= $2 AND disk_mb_free >= $3 THEN cpus_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND disk_mb_free >= $3 THEN memory_mb_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 THEN disk_mb_free ELSE 0 END),
                MAX(cpus_free), MAX(memory_mb_free), MAX(disk_mb_free)
         FROM nodes JOIN node_heartbeats h ON h.node_id = nodes.id AND h.seen_at >= $4
         WHERE state = 'ready' AND NOT exclusive GROUP BY fit ORDER BY fit");
    // The same, excluding node $5, which is about to be drained.
    CAPACITY_ROOMS_ELSEWHERE = both(
        "SELECT fit, SUM(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 AND disk_mb_free >= $3 THEN 1 ELSE 0 END),
                MAX(CASE WHEN memory_mb_free >= $2 AND disk_mb_free >= $3 THEN cpus_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND disk_mb_free >= $3 THEN memory_mb_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 THEN disk_mb_free ELSE 0 END),
                MAX(cpus_free), MAX(memory_mb_free), MAX(disk_mb_free)
         FROM nodes JOIN node_heartbeats h ON h.node_id = nodes.id AND h.seen_at >= $4
         WHERE state = 'ready' AND NOT exclusive AND id <> $5 GROUP BY fit ORDER BY fit");
    // The free capacity of each node that accepts allocations, to plan many allocations at once.
    CAPACITY_NODES = both(
        "SELECT fit, cpus_free, memory_mb_free, disk_mb_free, cpus_total, memory_mb_total, disk_mb_total
         FROM nodes JOIN node_heartbeats h ON h.node_id = nodes.id AND h.seen_at >= $1
         WHERE state = 'ready' AND NOT exclusive ORDER BY nodes.id");
    // The number of nodes that are large enough, regardless of current holds and of reachability.
    CAPACITY_LARGEST = both(
        "SELECT COUNT(*), MAX(gpus_total), MAX(cpus_total), MAX(memory_mb_total), MAX(disk_mb_total),
                CAST(SUM(CASE WHEN gpus_total >= $1 AND cpus_total >= $2 AND memory_mb_total >= $3 AND disk_mb_total >= $4 THEN 1 ELSE 0 END) AS BIGINT)
         FROM nodes WHERE retired_at IS NULL AND approved_at IS NOT NULL");
    CAPACITY_WAITING = both("SELECT COUNT(*) FROM allocations WHERE state = 'placing'");
}

fn slot(row: &Row) -> Result<Slot> {
    Ok(Slot {
        id: row.get(0)?,
        node_id: row.get(1)?,
        kind: row.get(2)?,
        device: row.get(3)?,
        ordinal: row.get(4)?,
        model: row.get(5)?,
        memory_mb: row.get(6)?,
        numa: row.get(7)?,
        island: row.get(8)?,
        state: SlotState::parse(&row.get::<String>(9)?).ok_or(StoreError::Corrupt("a state of a slot"))?,
        reason: row.get(10)?,
        allocation_id: row.get(11)?,
        version: row.get(12)?,
    })
}

fn unpacked(rows: &[Row]) -> Result<Vec<Fit>> {
    rows.iter().map(|row| Ok(Fit::unpacked(row.get(0)?))).collect()
}

/// Filters a node's slots down to those that can be claimed.
fn free(slots: &[Slot]) -> Vec<FreeSlot> {
    slots
        .iter()
        .filter(|slot| slot.state == SlotState::Approved && slot.allocation_id.is_none())
        .map(|slot| FreeSlot { id: slot.id, ordinal: slot.ordinal, island: slot.island, numa: slot.numa })
        .collect()
}

/// A node that can be claimed now, with its free slots; locked until the transaction ends.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// Its total capacity, except GPUs.
    pub total: Capacity,
    /// Its free slots.
    pub free: Vec<FreeSlot>,
}

/// The resources that an allocation holds on a node.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The node.
    pub node: NodeId,
    /// The allocation.
    pub allocation: AllocationId,
    /// The claimed slots.
    pub slots: Vec<SlotId>,
    /// The amount of each resource, with the number of slots as GPUs.
    pub amount: Capacity,
    /// The change in the node's number of holders: 1, or 0 if the allocation already holds something and grows.
    pub holders: i64,
    /// Whether the allocation has the node to itself.
    pub exclusive: bool,
    /// The node's fit afterwards.
    pub fit: Fit,
    /// Time of the change.
    pub at: Timestamp,
}

/// The number and free capacity of nodes with the same fit.
#[cfg(feature = "test-api")]
#[derive(Debug, Clone, Copy)]
pub struct FitCount {
    /// The fit.
    pub fit: Fit,
    /// The number of nodes.
    pub nodes: i64,
    /// The maximum that any of them has free.
    pub most: Capacity,
}

/// Nodes that are ready and have enough free capacity, but are silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// The number of nodes.
    pub nodes: i64,
    /// The latest heartbeat of any of them; absent if none ever sent one.
    pub seen_at: Option<Timestamp>,
}

/// The largest nodes that are approved and not retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargestNodes {
    /// The number of nodes.
    pub nodes: i64,
    /// The maximum total of each resource on a single node.
    pub most: Capacity,
    /// The number of nodes that would satisfy the request when empty.
    pub large_enough: i64,
}

fn rooms(rows: &[Row]) -> Result<Vec<Room>> {
    rows.iter()
        .map(|row| {
            let fit = Fit::unpacked(row.get(0)?);
            let capacity = |from: usize| -> Result<Capacity> {
                let gpus = i64::from(fit.gpus);
                let (cpus, memory_mb, disk_mb) = (row.get(from)?, row.get(from + 1)?, row.get(from + 2)?);
                Ok(Capacity { gpus, cpus, memory_mb, disk_mb })
            };
            Ok(Room { fit, nodes: row.get(1)?, beside: capacity(2)?, most: capacity(5)? })
        })
        .collect()
}

fn silent(row: Option<&Row>) -> Result<Option<Silent>> {
    let Some(row) = row else { return Ok(None) };
    let nodes: i64 = row.get(0)?;
    Ok(if nodes == 0 { None } else { Some(Silent { nodes, seen_at: row.get(1)? }) })
}

/// Returns the arguments for a request: its fits as two ranges, and the other resources.
fn room_args(ask: &Ask, need: &Capacity, heard_since: Timestamp) -> Vec<Value> {
    let least = |whole| Fit { whole, gpus: ask.gpus, pocket: 0, island: 0, numa: 0 }.packed();
    let first_whole = Fit { whole: true, gpus: 0, pocket: 0, island: 0, numa: 0 }.packed();
    let least_held = if ask.exclusive { first_whole } else { least(false) };
    args![least_held, first_whole, least(true), need.cpus, need.memory_mb, need.disk_mb, heard_since]
}

impl Store {
    /// Returns a node's slots with the allocations that hold them.
    pub async fn slot_list(&self, node: NodeId) -> Result<Vec<Slot>> {
        self.fetch_all(&SLOT_LIST, args![node]).await?.iter().map(slot).collect()
    }

    /// Returns the slot with this id.
    pub async fn slot_lookup(&self, id: SlotId) -> Result<Option<Slot>> {
        self.fetch_optional(&SLOT_GET, args![id]).await?.as_ref().map(slot).transpose()
    }

    /// Returns the fits of all nodes that accept allocations now.
    pub async fn fits(&self) -> Result<Vec<Fit>> {
        unpacked(&self.fetch_all(&FITS, args![]).await?)
    }

    /// Returns the number of nodes per fit.
    #[cfg(feature = "test-api")]
    pub async fn fit_counts(&self) -> Result<Vec<FitCount>> {
        let rows = self.fetch_all(&CAPACITY_BY_FIT, args![]).await?;
        rows.iter()
            .map(|row| {
                let fit = Fit::unpacked(row.get(0)?);
                Ok(FitCount {
                    fit,
                    nodes: row.get(1)?,
                    most: Capacity {
                        gpus: i64::from(fit.gpus),
                        cpus: row.get(2)?,
                        memory_mb: row.get(3)?,
                        disk_mb: row.get(4)?,
                    },
                })
            })
            .collect()
    }

    /// Returns the capacity for this request per fit, among nodes with a heartbeat since `heard_since`. The caller compares
    /// GPUs, which the fit fully describes.
    pub async fn rooms(&self, need: &Capacity, heard_since: Timestamp) -> Result<Vec<Room>> {
        rooms(
            &self
                .fetch_all(&CAPACITY_ROOMS, args![need.cpus, need.memory_mb, need.disk_mb, heard_since])
                .await?,
        )
    }

    /// Does the same for all nodes except one.
    pub async fn rooms_elsewhere(
        &self,
        need: &Capacity,
        heard_since: Timestamp,
        but: NodeId,
    ) -> Result<Vec<Room>> {
        let args = args![need.cpus, need.memory_mb, need.disk_mb, heard_since, but];
        rooms(&self.fetch_all(&CAPACITY_ROOMS_ELSEWHERE, args).await?)
    }

    /// Returns the number of queued allocations.
    pub async fn queue_length(&self) -> Result<i64> {
        self.fetch_optional(&CAPACITY_WAITING, args![]).await?.map_or(Ok(0), |row| row.get(0))
    }

    /// Returns the sizes of the largest nodes, and how many are large enough for this request.
    pub async fn largest_nodes(&self, need: &Capacity) -> Result<LargestNodes> {
        let args = args![need.gpus, need.cpus, need.memory_mb, need.disk_mb];
        let row = self.fetch_optional(&CAPACITY_LARGEST, args).await?;
        let row = row.ok_or(StoreError::Corrupt("a count of nodes"))?;
        let most = |at| Ok::<i64, StoreError>(row.get::<Option<i64>>(at)?.unwrap_or(0));
        Ok(LargestNodes {
            nodes: row.get(0)?,
            most: Capacity { gpus: most(1)?, cpus: most(2)?, memory_mb: most(3)?, disk_mb: most(4)? },
            large_enough: most(5)?,
        })
    }

    /// Returns the free capacity of each node that accepts allocations and sent a heartbeat since `heard_since`, ordered by
    /// id.
    pub async fn free_nodes(&self, heard_since: Timestamp) -> Result<Vec<FreeNode>> {
        let rows = self.fetch_all(&CAPACITY_NODES, args![heard_since]).await?;
        rows.iter()
            .map(|row| {
                let fit = Fit::unpacked(row.get(0)?);
                let gpus = i64::from(fit.gpus);
                let capacity = |from: usize| -> Result<Capacity> {
                    Ok(Capacity {
                        gpus,
                        cpus: row.get(from)?,
                        memory_mb: row.get(from + 1)?,
                        disk_mb: row.get(from + 2)?,
                    })
                };
                Ok(FreeNode { fit, free: capacity(1)?, total: capacity(4)? })
            })
            .collect()
    }

    /// Returns the number of nodes with enough free capacity that are ready but sent no heartbeat since `heard_since`.
    pub async fn silent_with_room(
        &self,
        ask: &Ask,
        need: &Capacity,
        heard_since: Timestamp,
    ) -> Result<Option<Silent>> {
        silent(
            self.fetch_optional(&NODES_SILENT_WITH_ROOM, room_args(ask, need, heard_since)).await?.as_ref(),
        )
    }

    /// Returns the slots that an allocation holds: id and device.
    pub async fn claims_of(&self, allocation: AllocationId) -> Result<Vec<(SlotId, String)>> {
        let rows = self.fetch_all(&CLAIMS_OF_ALLOCATION, args![allocation]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns the slots that are quarantined because of an allocation and have their devices present: id and device.
    pub async fn quarantined_for(&self, allocation: AllocationId) -> Result<Vec<(SlotId, String)>> {
        let rows = self.fetch_all(&SLOTS_QUARANTINED_FOR, args![allocation]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns the reachable nodes with slots that could not be verified as clean.
    pub async fn quarantined_nodes(&self) -> Result<Vec<NodeId>> {
        self.fetch_all(&NODE_QUARANTINED, args![]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the ended allocations with slots on a node that could not be verified as clean.
    pub async fn quarantined_on(&self, node: NodeId) -> Result<Vec<AllocationId>> {
        let rows = self.fetch_all(&SLOT_QUARANTINED_ON, args![node]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// Adds a slot, or updates its description.
    pub async fn slot_upsert(&mut self, slot: &Slot, at: Timestamp) -> Result<()> {
        let args = args![
            slot.id,
            slot.node_id,
            &slot.kind,
            &slot.device,
            slot.ordinal,
            &slot.model,
            slot.memory_mb,
            slot.numa,
            slot.island,
            slot.state.as_str(),
            at
        ];
        self.execute(&SLOT_UPSERT, args).await.map(drop)
    }

    /// Changes a slot's state. Returns `Conflict` on an attempt to approve a slot with a missing device.
    pub async fn slot_set_state(
        &mut self,
        id: SlotId,
        state: SlotState,
        reason: Option<&str>,
        quarantined_for: Option<AllocationId>,
        at: Timestamp,
    ) -> Result<()> {
        let gone = StoreError::Gone("slot".to_owned());
        self.execute_one(&SLOT_SET_STATE, args![id, state.as_str(), reason, quarantined_for, at], gone).await
    }

    /// Quarantines the slots that an allocation holds. A slot that already has a reason keeps it: a wipe must not release a
    /// slot that an operator quarantined.
    pub async fn slot_quarantine_of(
        &mut self,
        allocation: AllocationId,
        reason: &str,
        at: Timestamp,
    ) -> Result<u64> {
        self.execute(&SLOT_QUARANTINE_OF, args![allocation, reason, at]).await
    }

    /// Releases the slots that were quarantined because of an allocation, after they were verified as clean.
    pub async fn slot_clean_of(&mut self, allocation: AllocationId, at: Timestamp) -> Result<u64> {
        self.execute(&SLOT_CLEAN_OF, args![allocation, None::<String>, None::<Uuid>, at]).await
    }

    /// Selects and locks the node with the lowest id that has one of these fits, enough free capacity and a heartbeat since
    /// `heard_since`.
    pub async fn candidate(
        &mut self,
        kinds: &[Fit],
        need: &Capacity,
        heard_since: Timestamp,
    ) -> Result<Option<Candidate>> {
        let packed = kinds.iter().map(|fit| fit.packed());
        let mut args = match self.is_postgres() {
            true => vec![Value::I64s(packed.map(Some).collect())],
            false => args![packed.map(Json::from).collect::<Json>()],
        };
        args.extend(args![need.cpus, need.memory_mb, need.disk_mb, heard_since]);
        let rows = self.fetch_all(&CANDIDATE, args).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let mut candidate = Candidate {
            node: first.get(0)?,
            total: Capacity {
                gpus: 0,
                cpus: first.get(1)?,
                memory_mb: first.get(2)?,
                disk_mb: first.get(3)?,
            },
            free: Vec::with_capacity(rows.len()),
        };
        for row in &rows {
            // A node without free slots yields one row without a slot.
            if let Some(id) = row.get::<Option<SlotId>>(4)? {
                let (ordinal, island, numa) = (row.get(5)?, row.get(6)?, row.get(7)?);
                candidate.free.push(FreeSlot { id, ordinal, island, numa });
            }
        }
        // Another transaction changed the node between this statement's snapshot and its lock. Under the lock it can be read
        // again.
        if !first.get::<bool>(8)? {
            candidate.free = free(&self.slots_of(candidate.node).await?);
        }
        Ok(Some(candidate))
    }

    /// Returns the fits of all nodes that accept allocations, as read by this transaction.
    pub async fn fits(&mut self) -> Result<Vec<Fit>> {
        unpacked(&self.fetch_all(&FITS, args![]).await?)
    }

    /// Returns some node with room for this request and a heartbeat since `heard_since`, without locking it; ignores
    /// uncommitted changes of other transactions.
    pub async fn node_with_room(
        &mut self,
        ask: &Ask,
        need: &Capacity,
        heard_since: Timestamp,
    ) -> Result<Option<NodeId>> {
        let rows = self.fetch_all(&NODE_WITH_ROOM, room_args(ask, need, heard_since)).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// Returns the capacity for this request per fit, as read by this transaction.
    pub async fn rooms(&mut self, need: &Capacity, heard_since: Timestamp) -> Result<Vec<Room>> {
        rooms(
            &self
                .fetch_all(&CAPACITY_ROOMS, args![need.cpus, need.memory_mb, need.disk_mb, heard_since])
                .await?,
        )
    }

    /// Returns the number of nodes with enough free capacity that are ready but sent no heartbeat since `heard_since`.
    pub async fn silent_with_room(
        &mut self,
        ask: &Ask,
        need: &Capacity,
        heard_since: Timestamp,
    ) -> Result<Option<Silent>> {
        silent(self.fetch_all(&NODES_SILENT_WITH_ROOM, room_args(ask, need, heard_since)).await?.first())
    }

    /// Takes an allocation's resources from a node. Returns `Conflict` if a concurrent claim came first; the caller plans
    /// again.
    pub async fn hold(&mut self, hold: &Hold, claims: &[ClaimId]) -> Result<()> {
        let args = args![
            hold.node,
            hold.amount.gpus,
            hold.amount.cpus,
            hold.amount.memory_mb,
            hold.amount.disk_mb,
            hold.holders,
            hold.exclusive,
            hold.fit.packed()
        ];
        self.execute_one(&NODE_HOLD, args, StoreError::Gone("node".to_owned())).await?;
        if hold.slots.is_empty() {
            return Ok(());
        }
        let args = match self.is_postgres() {
            true => vec![
                Value::Uuids(claims.iter().map(|id| Some(id.uuid())).collect()),
                Value::Uuids(hold.slots.iter().map(|id| Some(id.uuid())).collect()),
                Value::from(hold.allocation),
                Value::from(hold.at),
            ],
            false => {
                let pairs = claims.iter().zip(&hold.slots);
                let rows: Json = pairs
                    .map(|(claim, slot)| json!([claim.uuid().to_string(), slot.uuid().to_string()]))
                    .collect();
                args![rows, None::<String>, hold.allocation, hold.at]
            }
        };
        self.execute(&CLAIM_INSERT, args).await.map(drop)
    }

    /// Does the same for an allocation that grows on a node with a locked row; returns `false` if there is not enough room.
    pub async fn hold_if_room(&mut self, hold: &Hold, claims: &[ClaimId]) -> Result<bool> {
        let args = args![hold.node, hold.amount.cpus, hold.amount.memory_mb, hold.amount.disk_mb];
        if self.fetch_all(&NODE_HAS_ROOM, args).await?.is_empty() {
            return Ok(false);
        }
        self.hold(hold, claims).await.map(|()| true)
    }

    /// Locks a node's row; returns its number of holders and whether one of them holds it exclusively.
    pub async fn node_lock(&mut self, id: NodeId) -> Result<(i64, bool)> {
        let rows = self.fetch_all(&NODE_LOCK, args![id]).await?;
        let row = rows.first().ok_or(StoreError::Gone("node".to_owned()))?;
        Ok((row.get(0)?, row.get(1)?))
    }

    /// Returns a node's slots, as read by this transaction.
    pub async fn slots_of(&mut self, node: NodeId) -> Result<Vec<Slot>> {
        self.fetch_all(&SLOT_LIST, args![node]).await?.iter().map(slot).collect()
    }

    /// Releases everything that an allocation holds on a node. The node's row must be locked; the caller then calls
    /// `node_recount`.
    pub async fn unhold(
        &mut self,
        node: NodeId,
        allocation: AllocationId,
        amount: &Capacity,
        at: Timestamp,
    ) -> Result<()> {
        self.execute(&CLAIM_RELEASE, args![allocation, at]).await?;
        let args = args![node, 0_i64, -amount.cpus, -amount.memory_mb, -amount.disk_mb, -1_i64, false, 0_i64];
        self.execute_one(&NODE_HOLD, args, StoreError::Gone("node".to_owned())).await
    }

    /// Releases some slots and amounts of an allocation that continues. The node's row must be locked; the caller then calls
    /// `node_recount`.
    pub async fn unhold_some(
        &mut self,
        node: NodeId,
        allocation: AllocationId,
        slots: &[SlotId],
        amount: &Capacity,
        at: Timestamp,
    ) -> Result<()> {
        for slot in slots {
            self.execute(&CLAIM_RELEASE_SLOT, args![allocation, *slot, at]).await?;
        }
        let args = args![node, 0_i64, -amount.cpus, -amount.memory_mb, -amount.disk_mb, 0_i64, false, 0_i64];
        self.execute_one(&NODE_HOLD, args, StoreError::Gone("node".to_owned())).await
    }

    /// Recounts a node's slots and updates its fit. The node's row must be locked.
    pub async fn node_recount(&mut self, node: NodeId) -> Result<()> {
        let (holders, _) = self.node_lock(node).await?;
        let slots = self.slots_of(node).await?;
        let usable = |slot: &&Slot| matches!(slot.state, SlotState::Approved | SlotState::Quarantined);
        let total = slots.iter().filter(usable).count();
        let quarantined = slots.iter().any(|slot| slot.state == SlotState::Quarantined);
        let free = free(&slots);
        let fit = Fit::of(&free, holders == 0 && !quarantined);
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let args = args![node, count(total), count(free.len()), fit.packed()];
        self.execute_one(&NODE_RECOUNT, args, StoreError::Gone("node".to_owned())).await
    }
}
