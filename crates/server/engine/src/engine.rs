//! The engine: leases what is due, lets a step speak, and commits what it said.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_db::{Store, StoreError, Tx};
use muster_ids::{OperationId, World};
use muster_model::event::EventType;
use muster_model::operation::{Operation, OperationState};
use serde_json::json;
use tokio::sync::Notify;

use crate::advance::{Turn, advance, turn};
use crate::child::take_up_whole;
use crate::definition::{Definition, StepCx, Undo};
use crate::point::{Point, Points, Strike};
use crate::telling::{changed, end_entry, path, tell};
use crate::verdict::{Act, Told, Verdict};
use crate::{Hooks, Releases, Timing, definition};

/// What one look at an operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tick {
    /// It went on, and may go on at once.
    Moved,
    /// It waits.
    Waits,
    /// It ended so.
    Ended(OperationState),
    /// Another holds the lease: what this one wanted to write was refused.
    Fenced,
    /// Something else was faster; it is looked at again.
    Lost,
    /// The engine was struck dead on purpose.
    Dead,
}

/// An engine of one replica.
pub struct Engine {
    store: Store,
    world: World,
    holder: String,
    timing: Timing,
    hooks: Hooks,
    /// The manifests of releases.
    pub releases: Releases,
    /// Woken when something may be due.
    pub wake: Notify,
    /// Where things can be made to go wrong.
    pub points: Points,
    fenced: AtomicU64,
}

/// Operations that one replica works on at once.
const AT_ONCE: i64 = 32;
/// How often to look when nothing is under way here; work of this replica wakes it at once.
const IDLE: Duration = Duration::from_millis(200);

/// When to look next, of what this replica has just let rest.
#[derive(Default)]
struct Alarm(Option<Timestamp>);

impl Alarm {
    fn set(&mut self, due_at: Option<Timestamp>) {
        self.0 = self.0.into_iter().chain(due_at).min();
    }

    /// How long to sleep: until the first of those is due, and no longer than it takes others to have something for us.
    fn next(&mut self, now: Timestamp) -> Duration {
        let due_at = self.0.filter(|at| *at > now);
        self.0 = due_at;
        let until = due_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        until.map_or(IDLE, |until| until.min(IDLE))
    }
}

impl Engine {
    /// An engine that works for `holder`.
    pub fn new(store: Store, world: World, holder: String, timing: Timing, hooks: Hooks) -> Self {
        Self {
            store,
            world,
            holder,
            timing,
            hooks,
            releases: Releases::default(),
            wake: Notify::new(),
            points: Points::default(),
            fenced: AtomicU64::new(0),
        }
    }

    /// The limits of waits.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// How many writes were refused because the lease had changed hands.
    pub fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Works until told to stop.
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
                () = tokio::time::sleep(alarm.next(self.world.now())) => {}
                () = self.wake.notified(), if room > 0 => {}
                Some(rests) = under_way.join_next(), if !under_way.is_empty() => alarm.set(rests.ok()),
                _ = stop.changed() => {}
            }
            while let Some(rests) = under_way.try_join_next() {
                alarm.set(rests.ok());
            }
        }
        // What is under way ends with its next commit; what is not done then is found by the next holder.
        let _ = tokio::time::timeout(Duration::from_secs(5), async {
            while under_way.join_next().await.is_some() {}
        })
        .await;
    }

    async fn lease(&self, most: i64) -> Result<Vec<Operation>, StoreError> {
        let now = self.world.now();
        // At rest a look is a read and costs no commit.
        if most <= 0 || !self.store.operation_any_due(now).await? {
            return Ok(Vec::new());
        }
        self.store.operation_lease(&self.holder, self.timing.lease, now, most).await
    }

    /// Leases what is due and works on it until all of it waits; says how often something moved. For tests, which want one
    /// thing after the other.
    pub async fn round(&self) -> Result<usize, StoreError> {
        let mut moved = 0;
        for operation in self.lease(AT_ONCE).await? {
            moved += 1;
            if self.work(operation).await == Tick::Dead {
                break;
            }
        }
        Ok(moved)
    }

    /// Works on a leased operation until it waits or ends.
    pub async fn work(&self, operation: Operation) -> Tick {
        self.work_until(operation).await.0
    }

    /// The same, and when it is due again.
    async fn work_until(&self, mut operation: Operation) -> (Tick, Timestamp) {
        let tick = self.work_on(&mut operation).await;
        (tick, operation.due_at)
    }

    async fn work_on(&self, operation: &mut Operation) -> Tick {
        let mut lost = 0;
        loop {
            match self.tick(operation).await {
                Ok(Tick::Moved) => lost = 0,
                Ok(Tick::Lost) if lost < 5 => {
                    lost += 1;
                    // Whoever was faster is done soon; the more often one loses, the longer one waits.
                    tokio::time::sleep(Duration::from_millis(2 << lost)).await;
                    match self.store.operation_lookup(operation.id).await {
                        Ok(Some(fresh)) if fresh.generation == operation.generation => *operation = fresh,
                        _ => return Tick::Lost,
                    }
                }
                // Others may go first, but not for as long as the lease would last.
                Ok(Tick::Lost) => {
                    let why = "others were faster again and again".to_owned();
                    let _ = self.rest(operation, self.world.now(), why).await;
                    return Tick::Lost;
                }
                Ok(tick) => return tick,
                Err(StoreError::Fenced) => {
                    self.fenced.fetch_add(1, Ordering::Relaxed);
                    (self.hooks.fenced)();
                    tracing::info!(operation_id = %operation.id, "fenced: another holds the lease");
                    return Tick::Fenced;
                }
                // Surely not done, and often over in a moment: a deadlock, a database that starts anew.
                Err(error @ StoreError::Unavailable(_)) if lost < 5 => {
                    lost += 1;
                    tracing::debug!(%error, operation_id = %operation.id, "the database is busy; the step is tried again");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => {
                    // The lease lapses, and whoever takes it reads back what is there.
                    tracing::warn!(%error, operation_id = %operation.id, "a step could not be written");
                    return Tick::Lost;
                }
            }
        }
    }

    /// One look: decide, let the step speak, write. `operation` is brought up to date.
    async fn tick(&self, operation: &mut Operation) -> Result<Tick, StoreError> {
        let now = self.world.now();
        let Some(kind) = definition(&operation.kind) else {
            return Err(StoreError::Corrupt("a known kind of operation"));
        };
        let mut next = operation.clone();
        if operation.state == OperationState::Accepted {
            if now >= operation.deadline_at {
                // Its turn never came: it has done nothing, and holds nothing that would have to be given back.
                let why = operation.waiting.clone().unwrap_or_else(|| "its turn never came".to_owned());
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
            Turn::Rest => self.write(operation, next, now, None, Told::default()).await.map(|()| Tick::Waits),
            Turn::Changed => {
                let told = changed(operation, &next);
                self.write(operation, next, now, Some(self.timing.lease), told).await.map(|()| Tick::Moved)
            }
            Turn::End(state) => self.end(operation, next, kind, state, now).await,
            Turn::Run(at) => self.step(operation, next, kind, at, false, now).await,
            Turn::Undo(at) => self.step(operation, next, kind, at, true, now).await,
        }
    }

    /// Takes the right to work on what the operation touches; otherwise it waits for whoever came before.
    async fn hold(&self, operation: &mut Operation, now: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.store.begin().await?;
        // Its own row first, like everybody who writes for an operation: one that ends locks those that it wakes before what
        // it touches, and the other way round the two would wait for each other.
        tx.operation_fence(operation).await?;
        let before = match tx.operation_hold(operation.id).await {
            Ok(before) => before,
            // Another took one of the things at the same moment.
            Err(StoreError::Conflict(_)) => {
                tx.rollback().await;
                return self
                    .rest(operation, now, "it waits for another operation on the same thing".to_owned())
                    .await;
            }
            Err(error) => return Err(error),
        };
        if let Some(before) = before {
            tx.rollback().await;
            if operation.cancel_requested {
                return Ok(true);
            }
            return self.rest(operation, now, format!("it waits for {before}, which came before it")).await;
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
            world: &self.world,
            releases: &self.releases,
            timing: &self.timing,
            operation,
            step: step.name,
            now,
        };
        let act = match self.points.pass(kind.kind, step.name, undoing, Point::Before) {
            Some(Strike::Die) => return Ok(Tick::Dead),
            Some(_) => Act::Say(struck()),
            None => match (undoing, step.undo) {
                (false, _) => (step.run)(&cx).await?,
                (true, Undo::Run(undo)) => undo(&cx).await?,
                (true, Undo::None(why)) => Act::Say(Verdict::said(why)),
            },
        };
        let mut told = Told::default();
        let mut tx = self.store.begin().await?;
        let verdict = match act {
            Act::Say(verdict) => verdict,
            Act::Write(write) => {
                tx.operation_fence(operation).await?;
                match write(&mut tx, &mut told).await {
                    Ok(verdict) => verdict,
                    Err(StoreError::Conflict(what)) => return lost(tx, operation.id, &what).await,
                    Err(StoreError::Stale) => return lost(tx, operation.id, "a row has changed").await,
                    Err(error) => return Err(error),
                }
            }
        };
        // What is due at once is gone on with at once: to give the lease back and take it again would be two commits more.
        let waits = match &verdict {
            Verdict::Wait { until, .. } | Verdict::Unknown { until, .. } => *until > now,
            _ => false,
        };
        if let Some(items) = told.items.take() {
            next.items = items;
        }
        advance(&mut next, kind, &self.timing, at, verdict, now);
        match self.points.pass(kind.kind, step.name, undoing, Point::BeforeCommit) {
            Some(Strike::Die) => {
                tx.rollback().await;
                return Ok(Tick::Dead);
            }
            Some(_) => return lost(tx, operation.id, "struck on purpose").await,
            None => {}
        }
        told.events.extend(changed(operation, &next).events);
        tx.operation_advance(&next, now, (!waits).then_some(self.timing.lease)).await?;
        tell(&self.world, &mut tx, &next, &told, None, now).await?;
        match tx.commit().await {
            Ok(()) => {}
            // The journal knows whether it happened, and it is read before anything else.
            Err(StoreError::Unheard) => return Ok(Tick::Lost),
            Err(error) => return Err(error),
        }
        self.after(&told);
        if self.points.pass(kind.kind, step.name, undoing, Point::AfterCommit).is_some() {
            return Ok(Tick::Dead);
        }
        next.version += 1;
        *operation = next;
        Ok(if waits { Tick::Waits } else { Tick::Moved })
    }

    async fn write(
        &self,
        operation: &mut Operation,
        mut next: Operation,
        now: Timestamp,
        keep: Option<SignedDuration>,
        told: Told,
    ) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        tx.operation_advance(&next, now, keep).await?;
        tell(&self.world, &mut tx, &next, &told, None, now).await?;
        tx.commit().await?;
        self.after(&told);
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
            world: &self.world,
            releases: &self.releases,
            timing: &self.timing,
            operation: &next,
            step: "settle",
            now,
        };
        let act = (kind.settle)(&cx, state).await?;
        next.state = state;
        next.waiting = None;
        next.parked = None;
        // What failed before it succeeded is in its steps and events, and is no outcome.
        if state == OperationState::Succeeded {
            (next.reason, next.message) = (None, None);
        }
        let mut told = Told::default();
        let mut tx = self.store.begin().await?;
        if let Act::Write(write) = act {
            tx.operation_fence(operation).await?;
            match write(&mut tx, &mut told).await {
                Ok(_) => {}
                Err(StoreError::Conflict(what)) => return lost(tx, operation.id, &what).await,
                Err(StoreError::Stale) => return lost(tx, operation.id, "a row has changed").await,
                Err(error) => return Err(error),
            }
        }
        told.events.push((
            EventType::OperationEnded,
            path(&next),
            json!({"kind": next.kind, "state": state}),
        ));
        // What an adapter was asked for and nobody waits for any more, it must not do either.
        if next.subject_kind == "member" {
            tx.adapter_step_cancel_of(next.id, now).await?;
        }
        tx.operation_end(&next, now).await?;
        take_up_whole(&mut tx, &next, &self.timing, now).await?;
        let entry = end_entry(&next, self.world.id(), now);
        tell(&self.world, &mut tx, &next, &told, Some(entry), now).await?;
        match tx.commit().await {
            Ok(()) => {}
            Err(StoreError::Unheard) => return Ok(Tick::Lost),
            Err(error) => return Err(error),
        }
        self.after(&told);
        (self.hooks.ended)(operation.id, kind.kind, state);
        self.wake.notify_one();
        *operation = next;
        Ok(Tick::Ended(state))
    }

    fn after(&self, told: &Told) {
        if !told.events.is_empty() {
            (self.hooks.unsealed)();
        }
        for node in &told.tasks_for {
            (self.hooks.task_for)(*node);
        }
        for account in &told.steps_for {
            (self.hooks.step_for)(*account);
        }
    }
}

fn struck() -> Verdict {
    Verdict::Refused { reason: "prepare_failed", message: "struck on purpose".to_owned() }
}

async fn lost(tx: Tx, id: OperationId, why: &str) -> Result<Tick, StoreError> {
    tx.rollback().await;
    tracing::debug!(operation_id = %id, why, "somebody was faster; the step is planned again");
    Ok(Tick::Lost)
}
