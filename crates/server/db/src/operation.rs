//! Operations: submitted with a command, leased by the engine, archived when they end.

use jiff::{SignedDuration, Timestamp};
use muster_ids::{AllocationId, NodeId, OperationId, ProjectId};
use muster_model::event::Timeline;
use muster_model::operation::{Operation, OperationKind, OperationState};
use serde_json::Value as Json;
use uuid::Uuid;

use crate::sql::{Row, args, both, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, kind, tenant_id, project_id, subject_kind, subject_id, subject_name, asked_by, correlation_id, state, input,
         exclusive_locks, steps, items, waiting, blocked, reason, message, cancel_requested, supersedes, parent_id, due_at,
         deadline_at, generation, wakes, created_at, updated_at, version, shared_locks,
         instance_id, member_id"
    };
}

statements! {
    OPERATION_OPEN = both(concat!("INSERT INTO operations (", columns!(), ", holder, leased_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
                 $24, $25, $26, $27, $28, $29, $30, $31, '', $32)"));
    OPERATION_GET = both(concat!("SELECT ", columns!(), " FROM operations WHERE id = $1"));
    OPERATION_OF_SUBJECT = both(concat!("SELECT ", columns!(), " FROM operations WHERE subject_id = $1 ORDER BY id"));
    OPERATION_LOCKING = both(concat!("SELECT ", columns!(), " FROM operations
         WHERE id IN (SELECT operation_id FROM operation_locks WHERE thing = $1) ORDER BY id"));
    // Blocked removals on a node, or in an allocation.
    OPERATION_PARKED_ON = both(concat!("SELECT ", columns!(), " FROM operations WHERE state = 'blocked' AND (
            (kind = 'allocation.release' AND subject_id IN (SELECT id FROM allocations WHERE node_id = $1))
            OR (kind = 'cell.destroy' AND subject_id IN (SELECT id FROM cells WHERE node_id = $1))
            OR (kind = 'member.remove' AND subject_id IN (SELECT m.id FROM members m
                JOIN allocations a ON a.id = m.allocation_id WHERE a.node_id = $1))
            OR (kind = 'instance.decommission' AND subject_id IN (SELECT i.id FROM instances i
                JOIN networks n ON n.id = i.network_id JOIN nodes d ON d.shared_files = n.shared_files
                WHERE d.id = $1))) ORDER BY id"));
    OPERATION_PARKED_IN = both(concat!("SELECT ", columns!(), " FROM operations WHERE state = 'blocked' AND (
            (kind = 'allocation.release' AND subject_id = $1)
            OR (kind = 'cell.destroy' AND subject_id IN (SELECT id FROM cells WHERE allocation_id = $1))
            OR (kind = 'member.remove' AND subject_id IN (SELECT id FROM members WHERE allocation_id = $1))) ORDER BY id"));
    OPERATION_FINISHED_GET = both("SELECT document FROM operations_finished WHERE id = $1");
    // $1 after, $2 project or null for all, $3 subject or null, $4 limit, $5 state or null; unfinished and finished as one
    // list.
    OPERATION_LIST_OPEN = pair(
        concat!("SELECT ", columns!(), " FROM operations WHERE id > $1 AND ($2::uuid IS NULL OR project_id = $2)
            AND ($3::uuid IS NULL OR subject_id = $3) AND ($5::text IS NULL OR state = $5) ORDER BY id LIMIT $4"),
        concat!("SELECT ", columns!(), " FROM operations WHERE id > $1 AND ($2 IS NULL OR project_id = $2)
            AND ($3 IS NULL OR subject_id = $3) AND ($5 IS NULL OR state = $5) ORDER BY id LIMIT $4"));
    OPERATION_LIST_FINISHED = pair(
        "SELECT document FROM operations_finished WHERE id > $1 AND ($2::uuid IS NULL OR project_id = $2)
            AND ($3::uuid IS NULL OR subject_id = $3) AND ($5::text IS NULL OR state = $5) ORDER BY id LIMIT $4",
        "SELECT document FROM operations_finished WHERE id > $1 AND ($2 IS NULL OR project_id = $2)
            AND ($3 IS NULL OR subject_id = $3) AND ($5 IS NULL OR state = $5) ORDER BY id LIMIT $4");
    OPERATION_CHILDREN = both(
        "SELECT id, kind, subject_id, state, input ->> 'spawn_key', reason, COALESCE(blocked ->> 'reason', waiting, message)
            FROM operations WHERE parent_id = $1
         UNION ALL SELECT id, kind, subject_id, state, document -> 'input' ->> 'spawn_key', document ->> 'reason', document ->> 'message'
            FROM operations_finished WHERE parent_id = $1");
    OPERATION_ANY_DUE = both("SELECT id FROM operations WHERE due_at <= $1 ORDER BY due_at LIMIT 1");
    // With several replicas, only the database's clock is shared. ARRAY keeps PostgreSQL from joining the subquery with the
    // whole table, where it could run more than once and select different rows each time.
    OPERATION_LEASE = pair(
        concat!("UPDATE operations SET holder = $1, generation = generation + 1,
            leased_until = now() + make_interval(secs => $2 / 1000.0)
         WHERE id = ANY (ARRAY(SELECT id FROM operations WHERE due_at <= $3 AND leased_until < now()
                               ORDER BY due_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED)) RETURNING ", columns!()),
        concat!("UPDATE operations SET holder = $1, generation = generation + 1, leased_until = $3 + $2 * 1000
         WHERE id IN (SELECT id FROM operations WHERE due_at <= $3 AND leased_until < $3 ORDER BY due_at LIMIT $4)
         RETURNING ", columns!()));
    // The fence of every step: after losing the lease, a worker changes no row. A wake-up that arrived meanwhile is not
    // lost.
    OPERATION_ADVANCE = pair(
        "UPDATE operations SET state = $3, steps = $4, items = $5, waiting = $6, blocked = $7, reason = $8, message = $9,
            due_at = CASE WHEN wakes = $10 THEN $11::timestamptz ELSE $12::timestamptz END, deadline_at = $13, updated_at = $12::timestamptz,
            leased_until = CASE WHEN $14 THEN now() + make_interval(secs => $15 / 1000.0) ELSE now() - interval '1 second' END,
            cancel_requested = cancel_requested OR $16, input = $17, version = version + 1
         WHERE id = $1 AND generation = $2",
        "UPDATE operations SET state = $3, steps = $4, items = $5, waiting = $6, blocked = $7, reason = $8, message = $9,
            due_at = CASE WHEN wakes = $10 THEN $11 ELSE $12 END, deadline_at = $13, updated_at = $12,
            leased_until = CASE WHEN $14 THEN $12 + $15 * 1000 ELSE 0 END,
            cancel_requested = cancel_requested OR $16, input = $17, version = version + 1
         WHERE id = $1 AND generation = $2");
    // Runs first, so that every writer for an operation locks its row first, and a worker that lost the lease writes
    // nothing.
    OPERATION_FENCE = pair(
        "SELECT id FROM operations WHERE id = $1 AND generation = $2 FOR NO KEY UPDATE",
        "SELECT id FROM operations WHERE id = $1 AND generation = $2");
    OPERATION_END = both("DELETE FROM operations WHERE id = $1 AND generation = $2");
    OPERATION_ARCHIVE = both(
        "INSERT INTO operations_finished (id, project_id, subject_id, parent_id, kind, state, finished_at, document)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    OPERATION_WAKE = both("UPDATE operations SET wakes = wakes + 1, due_at = $2 WHERE id = $1");
    OPERATION_CANCEL = both(
        "UPDATE operations SET cancel_requested = $3, wakes = wakes + 1, due_at = $2, updated_at = $2, version = version + 1
         WHERE id = $1");
    // Takes the operation away from the engine: bumping the generation fences the current worker.
    OPERATION_SEIZE = both(concat!(
        "UPDATE operations SET generation = generation + 1, holder = '', wakes = wakes + 1 WHERE id = $1 RETURNING ",
        columns!()));
    OPERATION_WAKE_WAITING_FOR = both(
        "UPDATE operations SET wakes = wakes + 1, due_at = $2
         WHERE state = 'accepted' AND id IN (SELECT operation_id FROM operation_locks
            WHERE NOT held AND thing IN (SELECT thing FROM operation_locks WHERE operation_id = $1))");
    OPERATION_WAKE_QUEUED = both(
        "UPDATE operations SET wakes = wakes + 1, due_at = $1
         WHERE subject_id IN (SELECT id FROM allocations WHERE state = 'placing' ORDER BY id LIMIT $2)");
    OPERATION_COUNT = both("SELECT state, COUNT(*) FROM operations GROUP BY state ORDER BY state");
    LOCK_INSERT = both("INSERT INTO operation_locks (operation_id, thing, held, shared) VALUES ($1, $2, $3, $4)");
    // A child queues at the position of its topmost parent. Otherwise it could wait for a later operation, which in turn
    // could wait for the parent: a deadlock. $1 waits for operations that hold a lock or precede it.
    LOCK_EARLIER = both(
        "WITH RECURSIVE line (operation_id, top, above) AS (
            SELECT id, id, parent_id FROM operations WHERE id IN (SELECT operation_id FROM operation_locks
                WHERE thing IN (SELECT thing FROM operation_locks WHERE operation_id = $1))
            UNION ALL SELECT operation_id, above, (SELECT o.parent_id FROM operations o WHERE o.id = above)
                FROM line WHERE above IS NOT NULL),
         places (operation_id, top) AS (SELECT operation_id, top FROM line WHERE above IS NULL)
         SELECT o.operation_id FROM operation_locks o JOIN operation_locks m ON m.thing = o.thing
            JOIN places po ON po.operation_id = o.operation_id JOIN places pm ON pm.operation_id = m.operation_id
         WHERE m.operation_id = $1 AND o.operation_id <> $1
            AND (o.held OR (po.top, o.operation_id) < (pm.top, m.operation_id)) AND NOT (o.shared AND m.shared)
         ORDER BY po.top, o.operation_id LIMIT 1");
    // The unique index excludes two exclusive locks, but not an exclusive lock and a shared one. So every acquirer first
    // locks the rows of all operations that contend for the same locks: the second one waits and then reads the lock the
    // first one took. SQLite has a single writer anyway.
    LOCK_ROWS = pair(
        "SELECT operation_id FROM operation_locks
         WHERE thing IN (SELECT thing FROM operation_locks WHERE operation_id = $1) ORDER BY thing, operation_id FOR UPDATE",
        "SELECT operation_id FROM operation_locks WHERE operation_id = $1");
    LOCK_ACQUIRE = both("UPDATE operation_locks SET held = $2 WHERE operation_id = $1");
    LOCK_END = both("DELETE FROM operation_locks WHERE operation_id = $1");
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(value: Json, what: &'static str) -> Result<T> {
    serde_json::from_value(value).map_err(|_| StoreError::Corrupt(what))
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> Json {
    serde_json::to_value(value).expect("an operation is JSON")
}

fn kind(row: &Row, column: usize) -> Result<OperationKind> {
    OperationKind::parse(&row.get::<String>(column)?).ok_or(StoreError::Corrupt("a kind of an operation"))
}

fn operation(row: &Row) -> Result<Operation> {
    Ok(Operation {
        id: row.get(0)?,
        kind: kind(row, 1)?,
        tenant_id: row.get(2)?,
        project_id: row.get(3)?,
        subject_kind: row.get(4)?,
        subject_id: row.get(5)?,
        subject_name: row.get(6)?,
        asked_by: json(row.get(7)?, "an asker")?,
        correlation_id: row.get(8)?,
        state: OperationState::parse(&row.get::<String>(9)?)
            .ok_or(StoreError::Corrupt("a state of an operation"))?,
        input: json(row.get(10)?, "an input of an operation")?,
        exclusive_locks: json(row.get(11)?, "exclusive_locks")?,
        steps: json(row.get(12)?, "steps")?,
        items: json(row.get(13)?, "items")?,
        waiting: row.get(14)?,
        blocked: row
            .get::<Option<Json>>(15)?
            .map(|blocked| json(blocked, "the reason of a blocked operation"))
            .transpose()?,
        reason: row.get(16)?,
        message: row.get(17)?,
        cancel_requested: row.get(18)?,
        supersedes: row.get(19)?,
        parent_id: row.get(20)?,
        due_at: row.get(21)?,
        deadline_at: row.get(22)?,
        generation: row.get(23)?,
        wakes: row.get(24)?,
        created_at: row.get(25)?,
        updated_at: row.get(26)?,
        finished_at: None,
        version: row.get(27)?,
        shared_locks: json(row.get(28)?, "shared_locks")?,
        timeline: Timeline { instance_id: row.get(29)?, member_id: row.get(30)? },
    })
}

/// Filter for lists of operations.
#[derive(Debug, Clone, Copy, Default)]
pub struct OperationFilter {
    /// Only operations of this project.
    pub project: Option<ProjectId>,
    /// Only operations on this subject.
    pub subject: Option<Uuid>,
    /// Only operations in this state.
    pub state: Option<OperationState>,
}

/// A child operation, as its parent needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationChild {
    /// Its id.
    pub id: OperationId,
    /// Its kind.
    pub kind: OperationKind,
    /// The subject it works on.
    pub subject_id: Uuid,
    /// Its state.
    pub state: OperationState,
    /// The parent's key for it.
    pub spawn_key: String,
    /// The reason of its failure, from a closed list.
    pub reason: Option<String>,
    /// A sentence on why it waits, is blocked or failed.
    pub message: Option<String>,
}

impl Store {
    /// Returns the operation with this id, finished or not.
    pub async fn operation_lookup(&self, id: OperationId) -> Result<Option<Operation>> {
        if let Some(row) = self.fetch_optional(&OPERATION_GET, args![id]).await? {
            return operation(&row).map(Some);
        }
        let row = self.fetch_optional(&OPERATION_FINISHED_GET, args![id]).await?;
        row.map(|row| json(row.get(0)?, "a finished operation")).transpose()
    }

    /// Returns the unfinished operations on a subject, oldest first.
    pub async fn operation_open_on(&self, subject: Uuid) -> Result<Vec<Operation>> {
        self.fetch_all(&OPERATION_OF_SUBJECT, args![subject]).await?.iter().map(operation).collect()
    }

    /// Returns the unfinished operations with a lock on this, exclusive or shared, oldest first.
    pub async fn operations_locking(&self, thing: Uuid) -> Result<Vec<Operation>> {
        self.fetch_all(&OPERATION_LOCKING, args![thing]).await?.iter().map(operation).collect()
    }

    /// Returns operations, finished and unfinished, oldest first.
    pub async fn operation_list(&self, page: Page, filter: OperationFilter) -> Result<Vec<Operation>> {
        let state = filter.state.map(OperationState::as_str);
        let args = || args![page.after, filter.project, filter.subject, page.size, state];
        let mut found: Vec<Operation> = Vec::new();
        // Finished and unfinished operations are in different tables: listing blocked ones does not read years of history.
        if filter.state.is_none_or(|state| !state.is_final()) {
            for row in self.fetch_all(&OPERATION_LIST_OPEN, args()).await? {
                found.push(operation(&row)?);
            }
        }
        if filter.state.is_none_or(OperationState::is_final) {
            for row in self.fetch_all(&OPERATION_LIST_FINISHED, args()).await? {
                found.push(json(row.get(0)?, "a finished operation")?);
            }
        }
        found.sort_by_key(|operation| operation.id);
        // An operation that ended between the two reads is in both.
        found.dedup_by_key(|operation| operation.id);
        found.truncate(usize::try_from(page.size).unwrap_or(0));
        Ok(found)
    }

    /// Returns the children of an operation, oldest first.
    pub async fn operation_children(&self, parent: OperationId) -> Result<Vec<OperationChild>> {
        let rows = self.fetch_all(&OPERATION_CHILDREN, args![parent]).await?;
        let state =
            |text: String| OperationState::parse(&text).ok_or(StoreError::Corrupt("a state of an operation"));
        let child = |row: &Row| -> Result<OperationChild> {
            Ok(OperationChild {
                id: row.get(0)?,
                kind: kind(row, 1)?,
                subject_id: row.get(2)?,
                state: state(row.get(3)?)?,
                spawn_key: row.get::<Option<String>>(4)?.unwrap_or_default(),
                reason: row.get(5)?,
                message: row.get(6)?,
            })
        };
        let mut children: Vec<OperationChild> = rows.iter().map(child).collect::<Result<_>>()?;
        children.sort_by_key(|child| child.id);
        // A child that ended between the two reads is in both.
        children.dedup_by_key(|child| child.id);
        Ok(children)
    }

    /// Reports whether any operation is due: a read, so that polling costs no commit.
    pub async fn operation_any_due(&self, now: Timestamp) -> Result<bool> {
        Ok(self.fetch_optional(&OPERATION_ANY_DUE, args![now]).await?.is_some())
    }

    /// Leases up to `most` operations that are due.
    pub async fn operation_lease(
        &self,
        holder: &str,
        length: SignedDuration,
        now: Timestamp,
        most: i64,
    ) -> Result<Vec<Operation>> {
        let mut tx = self.begin().await?;
        let rows = tx.fetch_all(&OPERATION_LEASE, args![holder, millis(length), now, most]).await?;
        // A row that this release cannot read, of a newer one perhaps, must not keep the others from being leased.
        let readable = |row: &Row| match operation(row) {
            Err(StoreError::Corrupt(what)) => {
                tracing::error!(what, "an operation cannot be read and is left alone");
                None
            }
            read => Some(read),
        };
        let leased = rows.iter().filter_map(readable).collect::<Result<_>>()?;
        tx.commit().await?;
        Ok(leased)
    }

    /// Returns the number of unfinished operations by state.
    pub async fn operation_count(&self) -> Result<Vec<(String, i64)>> {
        let rows = self.fetch_all(&OPERATION_COUNT, args![]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }
}

fn millis(length: SignedDuration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

impl Tx {
    /// Stores an operation with its locks.
    pub async fn operation_open(&mut self, operation: &Operation) -> Result<()> {
        let args = args![
            operation.id,
            operation.kind.as_str(),
            operation.tenant_id,
            operation.project_id,
            &operation.subject_kind,
            operation.subject_id,
            &operation.subject_name,
            to_json(&operation.asked_by),
            &operation.correlation_id,
            operation.state.as_str(),
            to_json(&operation.input),
            to_json(&operation.exclusive_locks),
            to_json(&operation.steps),
            to_json(&operation.items),
            operation.waiting.as_deref(),
            operation.blocked.as_ref().map(to_json),
            operation.reason.as_deref(),
            operation.message.as_deref(),
            operation.cancel_requested,
            operation.supersedes,
            operation.parent_id,
            operation.due_at,
            operation.deadline_at,
            operation.generation,
            operation.wakes,
            operation.created_at,
            operation.updated_at,
            operation.version,
            to_json(&operation.shared_locks),
            operation.timeline.instance_id,
            operation.timeline.member_id,
            Timestamp::UNIX_EPOCH
        ];
        self.execute(&OPERATION_OPEN, args).await?;
        for (things, shared) in [(&operation.exclusive_locks, false), (&operation.shared_locks, true)] {
            for thing in things {
                self.execute(&LOCK_INSERT, args![operation.id, *thing, false, shared]).await?;
            }
        }
        Ok(())
    }

    /// Returns the unfinished operations with a lock on this, as read by this transaction.
    pub async fn operations_locking_now(&mut self, thing: Uuid) -> Result<Vec<Operation>> {
        self.fetch_all(&OPERATION_LOCKING, args![thing]).await?.iter().map(operation).collect()
    }

    /// Acquires all locks of an operation. Returns an operation that precedes it, if there is one; of two concurrent
    /// attempts, one fails with `Conflict` at the unique index.
    pub async fn operation_hold(&mut self, id: OperationId) -> Result<Option<OperationId>> {
        self.fetch_all(&LOCK_ROWS, args![id]).await?;
        let earlier = self.fetch_all(&LOCK_EARLIER, args![id]).await?;
        if let Some(row) = earlier.first() {
            return row.get(0).map(Some);
        }
        self.execute(&LOCK_ACQUIRE, args![id, true]).await?;
        Ok(None)
    }

    /// Verifies that the lease is still held and locks the operation until the transaction ends.
    pub async fn operation_fence(&mut self, operation: &Operation) -> Result<()> {
        let held = self.fetch_all(&OPERATION_FENCE, args![operation.id, operation.generation]).await?;
        if held.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// Stores the outcome of a step. Fenced: the generation must be the leased one. `keep` extends the lease by its length,
    /// otherwise the lease is released.
    pub async fn operation_advance(
        &mut self,
        operation: &Operation,
        now: Timestamp,
        keep: Option<SignedDuration>,
    ) -> Result<()> {
        let args = args![
            operation.id,
            operation.generation,
            operation.state.as_str(),
            to_json(&operation.steps),
            to_json(&operation.items),
            operation.waiting.as_deref(),
            operation.blocked.as_ref().map(to_json),
            operation.reason.as_deref(),
            operation.message.as_deref(),
            operation.wakes,
            operation.due_at,
            now,
            operation.deadline_at,
            keep.is_some(),
            millis(keep.unwrap_or_default()),
            operation.cancel_requested,
            to_json(&operation.input)
        ];
        self.execute_one(&OPERATION_ADVANCE, args, StoreError::Fenced).await
    }

    /// Ends an operation: archives it and wakes the operations that wait for its locks. Fenced.
    pub async fn operation_end(&mut self, operation: &Operation, now: Timestamp) -> Result<()> {
        self.execute(&OPERATION_WAKE_WAITING_FOR, args![operation.id, now]).await?;
        self.execute(&LOCK_END, args![operation.id]).await?;
        self.execute_one(&OPERATION_END, args![operation.id, operation.generation], StoreError::Fenced)
            .await?;
        if let Some(parent) = operation.parent_id {
            self.operation_wake(parent, now).await?;
        }
        let mut document = operation.clone();
        document.finished_at = Some(now);
        document.updated_at = now;
        document.version += 1;
        let args = args![
            operation.id,
            operation.project_id,
            operation.subject_id,
            operation.parent_id,
            operation.kind.as_str(),
            operation.state.as_str(),
            now,
            to_json(&document)
        ];
        self.execute(&OPERATION_ARCHIVE, args).await.map(drop)
    }

    /// Makes an operation due now.
    pub async fn operation_wake(&mut self, id: OperationId, now: Timestamp) -> Result<()> {
        self.execute(&OPERATION_WAKE, args![id, now]).await.map(drop)
    }

    /// Makes the first operations in the capacity queue due now.
    pub async fn operation_wake_queued(&mut self, now: Timestamp, most: i64) -> Result<()> {
        self.execute(&OPERATION_WAKE_QUEUED, args![now, most]).await.map(drop)
    }

    /// Requests the cancellation of an operation.
    pub async fn operation_cancel(&mut self, id: OperationId, now: Timestamp) -> Result<()> {
        self.execute_one(&OPERATION_CANCEL, args![id, now, true], StoreError::Gone("operation".to_owned()))
            .await
    }

    /// Returns the unfinished operations on a subject, oldest first, as read by this transaction.
    pub async fn operation_open_on_now(&mut self, subject: Uuid) -> Result<Vec<Operation>> {
        self.fetch_all(&OPERATION_OF_SUBJECT, args![subject]).await?.iter().map(operation).collect()
    }

    /// Returns the operation with this id if it is unfinished, as read by this transaction.
    pub async fn operation_now(&mut self, id: OperationId) -> Result<Option<Operation>> {
        self.fetch_all(&OPERATION_GET, args![id]).await?.first().map(operation).transpose()
    }

    /// Returns the blocked removals that a node's return may free: of allocations, cells and members on it, and of instances
    /// with shared directories on its file system.
    pub async fn operation_blocked_on(&mut self, node: NodeId) -> Result<Vec<Operation>> {
        self.fetch_all(&OPERATION_PARKED_ON, args![node]).await?.iter().map(operation).collect()
    }

    /// Returns the blocked removals of an allocation and of the cells and members in it.
    pub async fn operation_blocked_in(&mut self, allocation: AllocationId) -> Result<Vec<Operation>> {
        self.fetch_all(&OPERATION_PARKED_IN, args![allocation]).await?.iter().map(operation).collect()
    }

    /// Takes an operation away from the engine and fences its worker. Returns the operation, or `None` if it has ended.
    pub async fn operation_seize(&mut self, id: OperationId) -> Result<Option<Operation>> {
        let rows = self.fetch_all(&OPERATION_SEIZE, args![id]).await?;
        rows.first().map(operation).transpose()
    }
}
