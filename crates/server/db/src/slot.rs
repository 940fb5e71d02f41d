//! Slots and the claims on them; what a node can still give.

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
         COALESCE(s.reason, CASE WHEN s.state = 'quarantined' THEN 'its device is not there any more' END),
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
    // A device that is not there was not seen to be clean: it waits until it is found.
    SLOT_CLEAN_OF = both(
        "UPDATE slots SET state = 'approved', reason = $2, quarantined_for = $3, updated_at = $4, version = version + 1
         WHERE state = 'quarantined' AND quarantined_for = $1 AND missing_since IS NULL");
    // Only after allocations that are over: what a living one holds is not wiped behind its back.
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
    // Every kind of node there is, by jumping through the index rather than walking it.
    FITS = both(
        "WITH RECURSIVE kinds (fit) AS (
            SELECT MIN(fit) FROM nodes WHERE state = 'ready' AND NOT exclusive
            UNION ALL
            SELECT (SELECT MIN(fit) FROM nodes WHERE state = 'ready' AND NOT exclusive AND fit > kinds.fit) FROM kinds
            WHERE kinds.fit IS NOT NULL)
         SELECT fit FROM kinds WHERE fit IS NOT NULL");
    // The one with the lowest id among some kinds, with its free slots. For each kind the index gives its first at once;
    // another worker's choice is passed over, not waited for. The lock is on the newest version of the node's row, but slots
    // and claims are read as they were when the statement began: the last column says whether that is the same.
    // A node whose last heartbeat is older than $5 is passed over, whatever its state. That look-up stands inside the CASE, where
    // PostgreSQL leaves it alone: as a condition of its own it would become a join, and the index would not be walked in order.
    // PostgreSQL is led to the index: a range of one value in the index's own order, because with `fit = kinds.fit` it may
    // walk the nodes by id instead, and for a rare kind it walks them all; and a CASE, which it takes for true half the time,
    // because it believes that hardly a node passes three comparisons, and would then read and sort a whole kind.
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
    // Any node that has so much, at one moment. Fits sort by whether the node is whole and then by its free GPUs: from $1 up
    // to $2 are those of which something is held, from $3 on those that are whole.
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
    // The same need, of nodes that are ready but silent: none of them is chosen, and none of them is lost yet.
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
    // GPUs are counted anew from the slots; the rest is given back.
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
    CAPACITY_BY_FIT = both(
        "SELECT fit, COUNT(*), MAX(cpus_free), MAX(memory_mb_free), MAX(disk_mb_free) FROM nodes
         WHERE state = 'ready' AND NOT exclusive GROUP BY fit ORDER BY fit");
    // For a need of $1 CPUs, $2 memory and $3 disk, of the nodes that sent a heartbeat since $4: how many have all of it, and
    // the most of each resource that one has which has enough of the others.
    CAPACITY_ROOMS = both(
        "SELECT fit, SUM(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 AND disk_mb_free >= $3 THEN 1 ELSE 0 END),
                MAX(CASE WHEN memory_mb_free >= $2 AND disk_mb_free >= $3 THEN cpus_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND disk_mb_free >= $3 THEN memory_mb_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 THEN disk_mb_free ELSE 0 END),
                MAX(cpus_free), MAX(memory_mb_free), MAX(disk_mb_free)
         FROM nodes JOIN node_heartbeats h ON h.node_id = nodes.id AND h.seen_at >= $4
         WHERE state = 'ready' AND NOT exclusive GROUP BY fit ORDER BY fit");
    // The same without the node $5, which is about to be drained.
    CAPACITY_ROOMS_ELSEWHERE = both(
        "SELECT fit, SUM(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 AND disk_mb_free >= $3 THEN 1 ELSE 0 END),
                MAX(CASE WHEN memory_mb_free >= $2 AND disk_mb_free >= $3 THEN cpus_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND disk_mb_free >= $3 THEN memory_mb_free ELSE 0 END),
                MAX(CASE WHEN cpus_free >= $1 AND memory_mb_free >= $2 THEN disk_mb_free ELSE 0 END),
                MAX(cpus_free), MAX(memory_mb_free), MAX(disk_mb_free)
         FROM nodes JOIN node_heartbeats h ON h.node_id = nodes.id AND h.seen_at >= $4
         WHERE state = 'ready' AND NOT exclusive AND id <> $5 GROUP BY fit ORDER BY fit");
    // What each node that takes allocations has free, for a plan of many allocations at once.
    CAPACITY_NODES = both(
        "SELECT fit, cpus_free, memory_mb_free, disk_mb_free, cpus_total, memory_mb_total, disk_mb_total
         FROM nodes JOIN node_heartbeats h ON h.node_id = nodes.id AND h.seen_at >= $1
         WHERE state = 'ready' AND NOT exclusive ORDER BY nodes.id");
    // Whether any node is large enough, whatever is held of it now and whether or not it answers.
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

/// Those of a node's slots that may be claimed.
fn free(slots: &[Slot]) -> Vec<FreeSlot> {
    slots
        .iter()
        .filter(|slot| slot.state == SlotState::Approved && slot.allocation_id.is_none())
        .map(|slot| FreeSlot { id: slot.id, ordinal: slot.ordinal, island: slot.island, numa: slot.numa })
        .collect()
}

/// A node that may be claimed now, locked until the transaction ends, with its free slots.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Which.
    pub node: NodeId,
    /// All it has but GPUs.
    pub total: Capacity,
    /// Its free slots.
    pub free: Vec<FreeSlot>,
}

/// What an allocation takes of a node.
#[derive(Debug, Clone)]
pub struct Hold {
    /// Which node.
    pub node: NodeId,
    /// For whom.
    pub allocation: AllocationId,
    /// Which slots.
    pub slots: Vec<SlotId>,
    /// How much of the rest, and how many slots.
    pub amount: Capacity,
    /// How many more allocations hold something of the node: 1, or 0 when one that holds takes more.
    pub holders: i64,
    /// Whether nobody else may.
    pub exclusive: bool,
    /// What the node can give afterwards.
    pub fit: Fit,
    /// When.
    pub at: Timestamp,
}

/// What nodes of one kind can give.
#[derive(Debug, Clone, Copy)]
pub struct FitCount {
    /// The kind.
    pub fit: Fit,
    /// How many there are.
    pub nodes: i64,
    /// The most that any of them has free.
    pub most: Capacity,
}

/// Nodes that have enough free, are ready, and are silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// How many.
    pub nodes: i64,
    /// The latest heartbeat of any of them; none of them sent one if absent.
    pub seen_at: Option<Timestamp>,
}

/// The largest nodes that are approved and not retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargestNodes {
    /// How many nodes there are.
    pub nodes: i64,
    /// The most of each resource that one has in all.
    pub most: Capacity,
    /// How many have all of the need, once nothing of them is held.
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

/// The kinds that can hold an ask, as two ranges of fits, and the rest of a need.
fn room_args(ask: &Ask, need: &Capacity, heard_since: Timestamp) -> Vec<Value> {
    let least = |whole| Fit { whole, gpus: ask.gpus, pocket: 0, island: 0, numa: 0 }.packed();
    let first_whole = Fit { whole: true, gpus: 0, pocket: 0, island: 0, numa: 0 }.packed();
    let least_held = if ask.exclusive { first_whole } else { least(false) };
    args![least_held, first_whole, least(true), need.cpus, need.memory_mb, need.disk_mb, heard_since]
}

impl Store {
    /// A node's slots, with who holds them.
    pub async fn slot_list(&self, node: NodeId) -> Result<Vec<Slot>> {
        self.fetch_all(&SLOT_LIST, args![node]).await?.iter().map(slot).collect()
    }

    /// The slot with this id.
    pub async fn slot_lookup(&self, id: SlotId) -> Result<Option<Slot>> {
        self.fetch_optional(&SLOT_GET, args![id]).await?.as_ref().map(slot).transpose()
    }

    /// The kinds of nodes that take allocations now.
    pub async fn fits(&self) -> Result<Vec<Fit>> {
        unpacked(&self.fetch_all(&FITS, args![]).await?)
    }

    /// How many nodes of each kind there are.
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

    /// What the nodes of each kind that sent a heartbeat since `heard_since` have for this need. GPUs are the caller's to
    /// compare: the kind says all about them.
    pub async fn rooms(&self, need: &Capacity, heard_since: Timestamp) -> Result<Vec<Room>> {
        rooms(
            &self
                .fetch_all(&CAPACITY_ROOMS, args![need.cpus, need.memory_mb, need.disk_mb, heard_since])
                .await?,
        )
    }

    /// The same for all nodes but one.
    pub async fn rooms_elsewhere(
        &self,
        need: &Capacity,
        heard_since: Timestamp,
        but: NodeId,
    ) -> Result<Vec<Room>> {
        let args = args![need.cpus, need.memory_mb, need.disk_mb, heard_since, but];
        rooms(&self.fetch_all(&CAPACITY_ROOMS_ELSEWHERE, args).await?)
    }

    /// How many allocations wait in line.
    pub async fn line_length(&self) -> Result<i64> {
        self.fetch_optional(&CAPACITY_WAITING, args![]).await?.map_or(Ok(0), |row| row.get(0))
    }

    /// The largest nodes there are, for a need.
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

    /// What each node has free that takes allocations and sent a heartbeat since `heard_since`, in order of their ids.
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

    /// The nodes with enough free that are ready but sent no heartbeat since `heard_since`.
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

    /// The slots that an allocation holds: id and device.
    pub async fn claims_of(&self, allocation: AllocationId) -> Result<Vec<(SlotId, String)>> {
        let rows = self.fetch_all(&CLAIMS_OF_ALLOCATION, args![allocation]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// The slots that are quarantined because of an allocation and whose devices are there: id and device.
    pub async fn quarantined_for(&self, allocation: AllocationId) -> Result<Vec<(SlotId, String)>> {
        let rows = self.fetch_all(&SLOTS_QUARANTINED_FOR, args![allocation]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// The nodes that can be asked, and have something that could not be verified as clean.
    pub async fn quarantined_nodes(&self) -> Result<Vec<NodeId>> {
        self.fetch_all(&NODE_QUARANTINED, args![]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// The allocations after which something on a node could not be verified as clean.
    pub async fn quarantined_on(&self, node: NodeId) -> Result<Vec<AllocationId>> {
        let rows = self.fetch_all(&SLOT_QUARANTINED_ON, args![node]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// Adds a slot, or brings what is known of it up to date.
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

    /// Moves a slot to another state. `Conflict` when it should be approved and its device is not there.
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

    /// Keeps everybody from the slots that an allocation holds. One that is quarantined for a reason already keeps it: what an
    /// operator quarantined is not set free by a wipe.
    pub async fn slot_quarantine_of(
        &mut self,
        allocation: AllocationId,
        reason: &str,
        at: Timestamp,
    ) -> Result<u64> {
        self.execute(&SLOT_QUARANTINE_OF, args![allocation, reason, at]).await
    }

    /// The slots that were quarantined because of an allocation are clean again.
    pub async fn slot_clean_of(&mut self, allocation: AllocationId, at: Timestamp) -> Result<u64> {
        self.execute(&SLOT_CLEAN_OF, args![allocation, None::<String>, None::<Uuid>, at]).await
    }

    /// The node with the lowest id that is of one of these kinds, has so much free and sent a heartbeat since `heard_since`,
    /// locked.
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
            // A node without a free slot comes as one row without a slot.
            if let Some(id) = row.get::<Option<SlotId>>(4)? {
                let (ordinal, island, numa) = (row.get(5)?, row.get(6)?, row.get(7)?);
                candidate.free.push(FreeSlot { id, ordinal, island, numa });
            }
        }
        // Somebody changed the node after the statement had begun and before it had the lock; nobody can now.
        if !first.get::<bool>(8)? {
            candidate.free = free(&self.slots_of(candidate.node).await?);
        }
        Ok(Some(candidate))
    }

    /// The kinds of nodes that take allocations, as this transaction sees them.
    pub async fn fits(&mut self) -> Result<Vec<Fit>> {
        unpacked(&self.fetch_all(&FITS, args![]).await?)
    }

    /// Some node that can hold what is asked for and sent a heartbeat since `heard_since`, not locked; what others have not
    /// committed yet does not count.
    pub async fn node_with_room(
        &mut self,
        ask: &Ask,
        need: &Capacity,
        heard_since: Timestamp,
    ) -> Result<Option<NodeId>> {
        let rows = self.fetch_all(&NODE_WITH_ROOM, room_args(ask, need, heard_since)).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// What the nodes of each kind have for this need, as this transaction sees them.
    pub async fn rooms(&mut self, need: &Capacity, heard_since: Timestamp) -> Result<Vec<Room>> {
        rooms(
            &self
                .fetch_all(&CAPACITY_ROOMS, args![need.cpus, need.memory_mb, need.disk_mb, heard_since])
                .await?,
        )
    }

    /// The nodes with enough free that are ready but sent no heartbeat since `heard_since`.
    pub async fn silent_with_room(
        &mut self,
        ask: &Ask,
        need: &Capacity,
        heard_since: Timestamp,
    ) -> Result<Option<Silent>> {
        silent(self.fetch_all(&NODES_SILENT_WITH_ROOM, room_args(ask, need, heard_since)).await?.first())
    }

    /// Takes what an allocation gets of a node. `Conflict` when somebody else was faster: the caller plans again.
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

    /// The same for an allocation that wants more on a node whose row is locked; `false` when there is not so much.
    pub async fn hold_if_room(&mut self, hold: &Hold, claims: &[ClaimId]) -> Result<bool> {
        let args = args![hold.node, hold.amount.cpus, hold.amount.memory_mb, hold.amount.disk_mb];
        if self.fetch_all(&NODE_HAS_ROOM, args).await?.is_empty() {
            return Ok(false);
        }
        self.hold(hold, claims).await.map(|()| true)
    }

    /// Locks a node's row, and says how many hold something of it, and whether one holds all.
    pub async fn node_lock(&mut self, id: NodeId) -> Result<(i64, bool)> {
        let rows = self.fetch_all(&NODE_LOCK, args![id]).await?;
        let row = rows.first().ok_or(StoreError::Gone("node".to_owned()))?;
        Ok((row.get(0)?, row.get(1)?))
    }

    /// A node's slots, as this transaction sees them.
    pub async fn slots_of(&mut self, node: NodeId) -> Result<Vec<Slot>> {
        self.fetch_all(&SLOT_LIST, args![node]).await?.iter().map(slot).collect()
    }

    /// Gives back what an allocation held of a node, all of it. The node's row must be locked; `node_recount` follows.
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

    /// Gives back some slots and amounts of an allocation that goes on. The node's row must be locked; `node_recount` follows.
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

    /// Counts a node's slots anew and writes what it can give now. The node's row must be locked.
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
