//! The engine: leases due operations, runs their steps and commits the outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_db::{Store, StoreError, Tx};
use muster_ids::{Env, OperationId};
use muster_model::event::EventType;
use muster_model::operation::{Operation, OperationState};
use serde_json::json;
use tokio::sync::Notify;

use crate::advance::{Turn, advance, turn};
use crate::child::resume_parent;
use crate::definition::{Definition, StepCx, Undo};
use crate::outbox::{append, changed, end, path};
use crate::point::{Point, Points, Strike};
use crate::step_outcome::{Effects, StepAction, StepOutcome};
use crate::{Hooks, Releases, Timing, definition};

/// Outcome of one pass over an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tick {
    /// It advanced and may continue immediately.
    Advanced,
    /// It waits.
    Waits,
    /// It ended in this state.
    Ended(OperationState),
    /// Another engine holds the lease: the write was refused.
    Fenced,
    /// A concurrent writer won; the pass is retried.
    Conflict,
    /// An injected fault ended the engine.
    Killed,
}

/// The engine of one replica.
pub struct Engine {
    store: Store,
    env: Env,
    holder: String,
    timing: Timing,
    hooks: Hooks,
    /// Manifests of releases.
    pub releases: Releases,
    /// Notified when an operation may be due.
    pub wake: Notify,
    /// Fault injection points.
    pub points: Points,
    fenced: AtomicU64,
}

/// Operations that one replica works on concurrently.
const AT_ONCE: i64 = 32;
/// Poll interval when idle; work on this replica wakes it immediately.
const IDLE: Duration = Duration::from_millis(200);

/// Earliest due time of the operations that this replica has just released.
#[derive(Default)]
struct Alarm(Option<Timestamp>);

impl Alarm {
    fn set(&mut self, due_at: Option<Timestamp>) {
        self.0 = self.0.into_iter().chain(due_at).min();
    }

    /// Returns the time to sleep: until the earliest due time, and at most `IDLE`, because other replicas may have produced
    /// work.
    fn next(&mut self, now: Timestamp) -> Duration {
        let due_at = self.0.filter(|at| *at > now);
        self.0 = due_at;
        let until = due_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        until.map_or(IDLE, |until| until.min(IDLE))
    }
}

impl Engine {
    /// Creates an engine that leases as `holder`.
    pub fn new(store: Store, env: Env, holder: String, timing: Timing, hooks: Hooks) -> Self {
        Self {
            store,
            env,
            holder,
            timing,
            hooks,
            releases: Releases::default(),
            wake: Notify::new(),
            points: Points::default(),
            fenced: AtomicU64::new(0),
        }
    }

    /// Returns the time limits.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Returns the number of writes refused because the lease had changed hands.
    pub fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Runs until `stop` is set.
    pub async fn run(self: Arc<Self>, mut stop: tokio::sync::watch::Receiver<bool>) {
        let mut under_way = tokio::task::JoinSet::new();
        let mut alarm = Alarm::default();
        while !*stop.borrow() {
            let room = AT_ONCE - i64::try_from(under_way.len()).unwrap_or(AT_ONCE);
            let leased = match self.lease(room).await {
                Ok(leased) => leased,
                Err(error) => {
                    tracing::warn!(%error, "the engine waits for the database");
                    Vec::new()
                }
            };
            let found = !leased.is_empty();
            for operation in leased {
                let engine = self.clone();
                under_way.spawn(async move { engine.work_until(operation).await.1 });
            }
            if found && room > 0 {
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(alarm.next(self.env.now())) => {}
                () = self.wake.notified(), if room > 0 => {}
                Some(rests) = under_way.join_next(), if !under_way.is_empty() => alarm.set(rests.ok()),
                _ = stop.changed() => {}
            }
            while let Some(rests) = under_way.try_join_next() {
                alarm.set(rests.ok());
            }
        }
        // Operations in progress stop at their next commit; the next lease holder continues them.
        let _ = tokio::time::timeout(Duration::from_secs(5), async {
            while under_way.join_next().await.is_some() {}
        })
        .await;
    }

    async fn lease(&self, most: i64) -> Result<Vec<Operation>, StoreError> {
        let now = self.env.now();
        // While idle, polling is a read and costs no commit.
        if most <= 0 || !self.store.operation_any_due(now).await? {
            return Ok(Vec::new());
        }
        self.store.operation_lease(&self.holder, self.timing.lease, now, most).await
    }

    /// Leases due operations and works on each until it waits or ends; returns how many it leased. For tests, which need a
    /// sequential run.
    pub async fn round(&self) -> Result<usize, StoreError> {
        let mut moved = 0;
        for operation in self.lease(AT_ONCE).await? {
            moved += 1;
            if self.work(operation).await == Tick::Killed {
                break;
            }
        }
        Ok(moved)
    }

    /// Works on a leased operation until it waits or ends.
    pub async fn work(&self, operation: Operation) -> Tick {
        self.work_until(operation).await.0
    }

    /// Like [`Engine::work`], and returns when the operation is due again.
    async fn work_until(&self, mut operation: Operation) -> (Tick, Timestamp) {
        let tick = self.work_on(&mut operation).await;
        (tick, operation.due_at)
    }

    async fn work_on(&self, operation: &mut Operation) -> Tick {
        let mut lost = 0;
        loop {
            match self.tick(operation).await {
                Ok(Tick::Advanced) => lost = 0,
                Ok(Tick::Conflict) if lost < 5 => {
                    lost += 1;
                    // Back off: the concurrent writer finishes soon.
                    tokio::time::sleep(Duration::from_millis(2 << lost)).await;
                    match self.store.operation_lookup(operation.id).await {
                        Ok(Some(fresh)) if fresh.generation == operation.generation => *operation = fresh,
                        _ => return Tick::Conflict,
                    }
                }
                // Give way to the other writers, but not for the remaining time of the lease.
                Ok(Tick::Conflict) => {
                    let why = "concurrent writers won repeatedly".to_owned();
                    let _ = self.rest(operation, self.env.now(), why).await;
                    return Tick::Conflict;
                }
                Ok(tick) => return tick,
                Err(StoreError::Fenced) => {
                    self.fenced.fetch_add(1, Ordering::Relaxed);
                    (self.hooks.fenced)();
                    tracing::info!(operation_id = %operation.id, "fenced: another holds the lease");
                    return Tick::Fenced;
                }
                // Certainly not committed, and usually transient: a deadlock, a database restart.
                Err(error @ StoreError::Unavailable(_)) if lost < 5 => {
                    lost += 1;
                    tracing::debug!(%error, operation_id = %operation.id, "the database is busy; retrying the step");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => {
                    // The lease expires, and the next holder reads the journal.
                    tracing::warn!(%error, operation_id = %operation.id, "a step could not be written");
                    return Tick::Conflict;
                }
            }
        }
    }

    /// Runs one pass: decide, run the step, commit. Updates `operation`.
    async fn tick(&self, operation: &mut Operation) -> Result<Tick, StoreError> {
        let now = self.env.now();
        let Some(kind) = definition(operation.kind) else {
            return Err(StoreError::Corrupt("a known kind of operation"));
        };
        let mut next = operation.clone();
        if operation.state == OperationState::Accepted {
            if now >= operation.deadline_at {
                // It never left the queue: it has no effects and holds no locks.
                let why = operation.waiting.clone().unwrap_or_else(|| "it never left the queue".to_owned());
                next.reason = Some("deadline_passed".to_owned());
                next.message = Some(format!("its deadline has passed: {why}"));
                return self.end(operation, next, kind, OperationState::Failed, now).await;
            }
            if !self.hold(operation, now).await? {
                return Ok(Tick::Waits);
            }
            next = operation.clone();
        }
        match turn(&mut next, kind, &self.timing, now) {
            Turn::Rest => {
                self.write(operation, next, now, None, Effects::default()).await.map(|()| Tick::Waits)
            }
            Turn::Changed => {
                let effects = changed(operation, &next);
                self.write(operation, next, now, Some(self.timing.lease), effects)
                    .await
                    .map(|()| Tick::Advanced)
            }
            Turn::End(state) => self.end(operation, next, kind, state, now).await,
            Turn::Run(at) => self.step(operation, next, kind, at, false, now).await,
            Turn::Undo(at) => self.step(operation, next, kind, at, true, now).await,
        }
    }

    /// Acquires the operation's locks; otherwise it waits for the operation ahead of it in the queue.
    async fn hold(&self, operation: &mut Operation, now: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.store.begin().await?;
        // Lock its own row first, like every writer of an operation: an ending operation locks those that it wakes before
        // its subjects, and the reverse order would deadlock.
        tx.operation_fence(operation).await?;
        let before = match tx.operation_hold(operation.id).await {
            Ok(before) => before,
            // Another operation acquired one of the locks concurrently.
            Err(StoreError::Conflict(_)) => {
                tx.rollback().await;
                return self
                    .rest(operation, now, "waiting for another operation on the same resource".to_owned())
                    .await;
            }
            Err(error) => return Err(error),
        };
        if let Some(before) = before {
            tx.rollback().await;
            if operation.cancel_requested {
                return Ok(true);
            }
            return self
                .rest(operation, now, format!("waiting for {before}, which is ahead in the queue"))
                .await;
        }
        let mut next = operation.clone();
        next.state = OperationState::Running;
        next.waiting = None;
        tx.operation_advance(&next, now, Some(self.timing.lease)).await?;
        tx.commit().await?;
        next.version += 1;
        *operation = next;
        Ok(true)
    }

    async fn rest(&self, operation: &Operation, now: Timestamp, why: String) -> Result<bool, StoreError> {
        let mut next = operation.clone();
        next.waiting = Some(why);
        next.due_at = (now + self.timing.look).min(operation.deadline_at);
        let mut tx = self.store.begin().await?;
        tx.operation_advance(&next, now, None).await?;
        tx.commit().await?;
        Ok(false)
    }

    async fn step(
        &self,
        operation: &mut Operation,
        mut next: Operation,
        kind: &'static Definition,
        at: usize,
        undoing: bool,
        now: Timestamp,
    ) -> Result<Tick, StoreError> {
        let Some(step) = kind.step(&operation.steps[at].name) else {
            return Err(StoreError::Corrupt("a known step"));
        };
        let cx = StepCx {
            store: &self.store,
            env: &self.env,
            releases: &self.releases,
            timing: &self.timing,
            operation,
            step: step.name,
            now,
        };
        let act = match self.points.pass(kind.kind, step.name, undoing, Point::Before) {
            Some(Strike::Die) => return Ok(Tick::Killed),
            Some(_) => StepAction::Return(struck()),
            None => match (undoing, step.undo) {
                (false, _) => (step.run)(&cx).await?,
                (true, Undo::Run(undo)) => undo(&cx).await?,
                (true, Undo::None(why)) => StepAction::Return(StepOutcome::with_message(why)),
            },
        };
        let mut effects = Effects::default();
        let mut tx = self.store.begin().await?;
        let outcome = match act {
            StepAction::Return(outcome) => outcome,
            StepAction::Commit(write) => {
                tx.operation_fence(operation).await?;
                match write(&mut tx, &mut effects).await {
                    Ok(outcome) => outcome,
                    Err(StoreError::Conflict(what)) => return lost(tx, operation.id, &what).await,
                    Err(StoreError::Stale) => return lost(tx, operation.id, "a row has changed").await,
                    Err(error) => return Err(error),
                }
            }
        };
        // Due immediately: keep the lease and continue. Releasing and re-acquiring costs two commits.
        let waits = match &outcome {
            StepOutcome::Wait { until, .. } | StepOutcome::Unknown { until, .. } => *until > now,
            _ => false,
        };
        if let Some(items) = effects.items.take() {
            next.items = items;
        }
        advance(&mut next, kind, &self.timing, at, outcome, now);
        match self.points.pass(kind.kind, step.name, undoing, Point::BeforeCommit) {
            Some(Strike::Die) => {
                tx.rollback().await;
                return Ok(Tick::Killed);
            }
            Some(_) => return lost(tx, operation.id, "injected fault").await,
            None => {}
        }
        effects.events.extend(changed(operation, &next).events);
        tx.operation_advance(&next, now, (!waits).then_some(self.timing.lease)).await?;
        append(&self.env, &mut tx, &next, &effects, None, now).await?;
        match tx.commit().await {
            Ok(()) => {}
            // The outcome of the commit is unknown; the journal is read before anything else happens.
            Err(StoreError::Unheard) => return Ok(Tick::Conflict),
            Err(error) => return Err(error),
        }
        self.after(&effects);
        if self.points.pass(kind.kind, step.name, undoing, Point::AfterCommit).is_some() {
            return Ok(Tick::Killed);
        }
        next.version += 1;
        *operation = next;
        Ok(if waits { Tick::Waits } else { Tick::Advanced })
    }

    async fn write(
        &self,
        operation: &mut Operation,
        mut next: Operation,
        now: Timestamp,
        keep: Option<SignedDuration>,
        effects: Effects,
    ) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        tx.operation_advance(&next, now, keep).await?;
        append(&self.env, &mut tx, &next, &effects, None, now).await?;
        tx.commit().await?;
        self.after(&effects);
        next.version += 1;
        *operation = next;
        Ok(())
    }

    async fn end(
        &self,
        operation: &mut Operation,
        mut next: Operation,
        kind: &'static Definition,
        state: OperationState,
        now: Timestamp,
    ) -> Result<Tick, StoreError> {
        let cx = StepCx {
            store: &self.store,
            env: &self.env,
            releases: &self.releases,
            timing: &self.timing,
            operation: &next,
            step: "settle",
            now,
        };
        let act = (kind.settle)(&cx, state).await?;
        next.state = state;
        next.waiting = None;
        next.blocked = None;
        // Earlier failures stay in its steps and events; they are not the outcome of a success.
        if state == OperationState::Succeeded {
            (next.reason, next.message) = (None, None);
        }
        let mut effects = Effects::default();
        let mut tx = self.store.begin().await?;
        if let StepAction::Commit(write) = act {
            tx.operation_fence(operation).await?;
            match write(&mut tx, &mut effects).await {
                Ok(_) => {}
                Err(StoreError::Conflict(what)) => return lost(tx, operation.id, &what).await,
                Err(StoreError::Stale) => return lost(tx, operation.id, "a row has changed").await,
                Err(error) => return Err(error),
            }
        }
        effects.events.push((
            EventType::OperationEnded,
            path(&next),
            json!({"kind": next.kind, "state": state}),
        ));
        // Cancel its outstanding adapter steps: no operation waits for them any more.
        if next.subject_kind == "member" {
            tx.adapter_step_cancel_of(next.id, now).await?;
        }
        tx.operation_end(&next, now).await?;
        resume_parent(&mut tx, &next, &self.timing, now).await?;
        append(&self.env, &mut tx, &next, &effects, Some(end(&next)), now).await?;
        match tx.commit().await {
            Ok(()) => {}
            Err(StoreError::Unheard) => return Ok(Tick::Conflict),
            Err(error) => return Err(error),
        }
        self.after(&effects);
        (self.hooks.ended)(operation.id, kind.kind, state);
        self.wake.notify_one();
        *operation = next;
        Ok(Tick::Ended(state))
    }

    fn after(&self, effects: &Effects) {
        if !effects.events.is_empty() {
            (self.hooks.outbox)();
        }
        for node in &effects.tasks_for {
            (self.hooks.task_for)(*node);
        }
        for account in &effects.steps_for {
            (self.hooks.step_for)(*account);
        }
    }
}

fn struck() -> StepOutcome {
    StepOutcome::Refused { reason: "prepare_failed", message: "injected fault".to_owned() }
}

async fn lost(tx: Tx, id: OperationId, why: &str) -> Result<Tick, StoreError> {
    tx.rollback().await;
    tracing::debug!(operation_id = %id, why, "a concurrent writer won; planning the step again");
    Ok(Tick::Conflict)
}
