//! Node tasks: queued by the engine, fetched and reported by agents.

use jiff::Timestamp;
use muster_ids::{NodeId, OperationId, TaskId};
use muster_model::task::{Task, TaskKind, TaskState};
use serde_json::Value as Json;

use crate::sql::{Row, args, both, pair, statements};
use crate::{Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, node_id, operation_id, key, kind, allocation_id, incarnation, generation, payload, state, result, message,
         correlation_id, queued_at, delivered_at, finished_at, expires_at"
    };
}

statements! {
    // Idempotent: a retry of the step finds the existing task.
    TASK_QUEUE = both(concat!("INSERT INTO node_tasks (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL, NULL, $11, $12, NULL, NULL, $13)
         ON CONFLICT (operation_id, key) DO NOTHING"));
    TASK_GET = both(concat!("SELECT ", columns!(), " FROM node_tasks WHERE id = $1"));
    TASK_OF = both(concat!("SELECT ", columns!(), " FROM node_tasks WHERE operation_id = $1 ORDER BY id"));
    TASK_BY_KEY = both(concat!("SELECT ", columns!(), " FROM node_tasks WHERE operation_id = $1 AND key = $2"));
    // For one generation: the number of all tasks, and of those that have not ended.
    TASK_COUNT_OF = both("SELECT COUNT(*), COALESCE(SUM(CASE WHEN state IN ('queued', 'delivered', 'running') THEN 1 ELSE 0 END), 0)
         FROM node_tasks WHERE operation_id = $1 AND SUBSTR(key, 1, LENGTH($2)) = $2 AND generation = $3");
    // Frees the key, so that the same task can be queued again.
    TASK_SET_ASIDE = both("UPDATE node_tasks SET key = $3 WHERE id = $1 AND key = $2");
    TASK_OPEN_ON = both(concat!("SELECT ", columns!(), " FROM node_tasks
         WHERE node_id = $1 AND state IN ('queued', 'delivered', 'running') ORDER BY id"));
    TASK_NODES_WAITING = both(
        "SELECT DISTINCT node_id FROM node_tasks WHERE state = 'queued' AND expires_at > $1");
    // Only for the agent of the current session; an older agent would not run the tasks. The lock serializes with the hello
    // of the next session: without it, a task could be delivered at the moment of a hello that did not read it and so did
    // not requeue it.
    TASK_DELIVER = pair(
        concat!("WITH agent AS (SELECT id FROM nodes WHERE id = $1 AND session = $4 AND session_clean AND retired_at IS NULL
                        FOR SHARE)
         UPDATE node_tasks SET state = 'delivered', delivered_at = $2
         WHERE id = ANY (ARRAY(SELECT id FROM node_tasks WHERE node_id = (SELECT id FROM agent) AND state = 'queued'
                               AND expires_at > $2 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING ", columns!()),
        concat!("UPDATE node_tasks SET state = 'delivered', delivered_at = $2
         WHERE id IN (SELECT id FROM node_tasks WHERE node_id = $1 AND state = 'queued' AND expires_at > $2
                      AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = $1 AND n.session = $4 AND n.session_clean
                                  AND n.retired_at IS NULL)
                      ORDER BY id LIMIT $3) RETURNING ", columns!()));
    // A restarted agent has lost its tasks; running one again is safe, because the agent finds its earlier effects.
    // `delivered_at` stays: only a task without it was never delivered, and so certainly not started.
    TASK_REQUEUE = both(
        "UPDATE node_tasks SET state = 'queued' WHERE node_id = $1 AND state IN ('delivered', 'running')");
    // Tasks that did not fit into a delivery. `delivered_at` stays here too: an earlier delivery may have included the task.
    TASK_PUT_BACK = both("UPDATE node_tasks SET state = 'queued' WHERE id = $1 AND state = 'delivered'");
    TASK_REPORT = both(
        "UPDATE node_tasks SET state = $3, result = $4, message = $5, finished_at = $6
         WHERE id = $1 AND node_id = $2 AND incarnation = $7 AND generation = $8
            AND state IN ('queued', 'delivered', 'running')");
    TASK_EXPIRE = both(
        "UPDATE node_tasks SET state = 'expired', finished_at = $2
         WHERE id = $1 AND state IN ('queued', 'delivered', 'running')");
    TASK_WITHDRAW = both(
        "UPDATE node_tasks SET state = 'expired', finished_at = $2
         WHERE id = $1 AND state = 'queued' AND delivered_at IS NULL");
    TASK_EXPIRE_OF = both(
        "UPDATE node_tasks SET state = 'expired', finished_at = $2
         WHERE operation_id = $1 AND state IN ('queued', 'delivered', 'running')");
    TASK_FORGET_OF = both("DELETE FROM node_tasks WHERE operation_id = $1");
    TASK_PRUNE = both("DELETE FROM node_tasks WHERE finished_at IS NOT NULL AND finished_at < $1");
}

fn task(row: &Row) -> Result<Task> {
    Ok(Task {
        id: row.get(0)?,
        node_id: row.get(1)?,
        operation_id: row.get(2)?,
        key: row.get(3)?,
        kind: TaskKind::parse(&row.get::<String>(4)?).ok_or(StoreError::Corrupt("a kind of task"))?,
        allocation_id: row.get(5)?,
        incarnation: row.get(6)?,
        generation: row.get(7)?,
        payload: row.get(8)?,
        state: TaskState::parse(&row.get::<String>(9)?).ok_or(StoreError::Corrupt("a state of a task"))?,
        result: row.get(10)?,
        message: row.get(11)?,
        correlation_id: row.get(12)?,
        queued_at: row.get(13)?,
        delivered_at: row.get(14)?,
        finished_at: row.get(15)?,
        expires_at: row.get(16)?,
    })
}

/// An agent's report on a task.
#[derive(Debug, Clone)]
pub struct TaskReport {
    /// The task.
    pub id: TaskId,
    /// Its incarnation.
    pub incarnation: i64,
    /// The generation under which it was queued.
    pub generation: i64,
    /// The final state.
    pub state: TaskState,
    /// The observed result.
    pub result: Json,
    /// A message for people.
    pub message: Option<String>,
}

/// Maximum payload bytes of a delivery with more than one task.
const DELIVERY_BYTES: usize = 2 << 20;

/// Returns how many of these tasks fit into one delivery: always at least the first.
fn fitting(tasks: &[Task]) -> usize {
    let mut bytes = 0;
    let fits = |task: &&Task| {
        bytes += task.payload.to_string().len();
        bytes <= DELIVERY_BYTES
    };
    tasks.iter().take_while(fits).count().max(1).min(tasks.len())
}

impl Store {
    /// Returns the task with this id.
    pub async fn task_lookup(&self, id: TaskId) -> Result<Option<Task>> {
        self.fetch_optional(&TASK_GET, args![id]).await?.as_ref().map(task).transpose()
    }

    /// Returns the tasks of an operation, oldest first.
    pub async fn task_list(&self, operation: OperationId) -> Result<Vec<Task>> {
        self.fetch_all(&TASK_OF, args![operation]).await?.iter().map(task).collect()
    }

    /// Returns the task with this key.
    pub async fn task_by_key(&self, operation: OperationId, key: &str) -> Result<Option<Task>> {
        self.fetch_optional(&TASK_BY_KEY, args![operation, key]).await?.as_ref().map(task).transpose()
    }

    /// Returns the unfinished tasks of a node, oldest first.
    pub async fn task_open_on(&self, node: NodeId) -> Result<Vec<Task>> {
        self.fetch_all(&TASK_OPEN_ON, args![node]).await?.iter().map(task).collect()
    }

    /// Returns the nodes with queued tasks.
    pub async fn task_nodes_waiting(&self, now: Timestamp) -> Result<Vec<NodeId>> {
        self.fetch_all(&TASK_NODES_WAITING, args![now]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Delivers the oldest queued tasks to a node's agent if its session is current and clean: at most `most`, and no more
    /// than fit into one response. The others stay queued, so that large tasks of one tenant delay those of another by one
    /// response and never block them.
    pub async fn task_deliver(
        &self,
        node: NodeId,
        session: i64,
        at: Timestamp,
        most: i64,
    ) -> Result<Vec<Task>> {
        let mut tx = self.begin().await?;
        let rows = tx.fetch_all(&TASK_DELIVER, args![node, at, most, session]).await?;
        let mut tasks: Vec<Task> = rows.iter().map(task).collect::<Result<_>>()?;
        tasks.sort_by_key(|task| task.id);
        for surplus in tasks.split_off(fitting(&tasks)) {
            tx.execute(&TASK_PUT_BACK, args![surplus.id]).await?;
        }
        tx.commit().await?;
        Ok(tasks)
    }
}

impl Tx {
    /// Queues a task; reports whether it is new.
    pub async fn task_queue(&mut self, task: &Task) -> Result<bool> {
        let args = args![
            task.id,
            task.node_id,
            task.operation_id,
            &task.key,
            task.kind.as_str(),
            task.allocation_id,
            task.incarnation,
            task.generation,
            task.payload.clone(),
            task.state.as_str(),
            &task.correlation_id,
            task.queued_at,
            task.expires_at
        ];
        Ok(self.execute(&TASK_QUEUE, args).await? == 1)
    }

    /// Counts the tasks of an operation with this key prefix and generation, and how many of them have not ended.
    pub async fn task_count_of(
        &mut self,
        operation: OperationId,
        prefix: &str,
        generation: i64,
    ) -> Result<(i64, i64)> {
        let rows = self.fetch_all(&TASK_COUNT_OF, args![operation, prefix, generation]).await?;
        rows.first().map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Renames a task's key, unless already done, so that the same task can be queued again.
    pub async fn task_set_aside(&mut self, id: TaskId, key: &str, aside: &str) -> Result<()> {
        self.execute(&TASK_SET_ASIDE, args![id, key, aside]).await.map(drop)
    }

    /// Requeues the tasks that an earlier agent had.
    pub async fn task_requeue(&mut self, node: NodeId) -> Result<u64> {
        self.execute(&TASK_REQUEUE, args![node]).await
    }

    /// Stores an agent's report on a task. Returns `Fenced` if the task has ended or the report is for an older incarnation
    /// or generation.
    pub async fn task_report(&mut self, node: NodeId, report: &TaskReport, at: Timestamp) -> Result<()> {
        let args = args![
            report.id,
            node,
            report.state.as_str(),
            report.result.clone(),
            report.message.as_deref(),
            at,
            report.incarnation,
            report.generation
        ];
        self.execute_one(&TASK_REPORT, args, StoreError::Fenced).await
    }

    /// Deletes tasks that ended before `until`.
    pub async fn task_prune(&mut self, until: Timestamp) -> Result<u64> {
        self.execute(&TASK_PRUNE, args![until]).await
    }

    /// Expires a task that is no longer needed.
    pub async fn task_expire(&mut self, id: TaskId, at: Timestamp) -> Result<()> {
        self.execute(&TASK_EXPIRE, args![id, at]).await.map(drop)
    }

    /// Withdraws a task that was never delivered; returns `false` if it was, because the agent may have started it.
    pub async fn task_withdraw(&mut self, id: TaskId, at: Timestamp) -> Result<bool> {
        Ok(self.execute(&TASK_WITHDRAW, args![id, at]).await? == 1)
    }

    /// Expires the tasks of an operation that are no longer needed.
    pub async fn task_expire_of(&mut self, operation: OperationId, at: Timestamp) -> Result<()> {
        self.execute(&TASK_EXPIRE_OF, args![operation, at]).await.map(drop)
    }

    /// Deletes the tasks of an operation that was rolled back.
    pub async fn task_forget_of(&mut self, operation: OperationId) -> Result<()> {
        self.execute(&TASK_FORGET_OF, args![operation]).await.map(drop)
    }
}
