//! One worker: claims, holds for a while, releases, and records its operations with their times.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_db::{Fault, Result, Store, StoreError};
use muster_engine::{Placed, place};
use muster_ids::{AllocationId, Env};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::node::Capacity;
use muster_model::placement::Strategy;

use crate::fleet::{Fleet, below, env};
use crate::history::{Deed, Event, Stopwatch};
use crate::stale::{self, Choice};

/// Longer than any run, so that the single heartbeat of each node counts as recent.
const HEARD: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// How a worker chooses its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Like the engine: by `place`, under the node's lock.
    Fresh,
    /// A planted bug: it chooses before its transaction begins and relies on stale data.
    Stale,
}

/// A worker with its claims.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) sight: Sight,
    store: Store,
    pub(crate) env: Env,
    watch: Stopwatch,
    template: Allocation,
    /// Its claims that are not released, by its own record.
    pub(crate) held: BTreeMap<AllocationId, Placed>,
    pub(crate) history: Vec<Event>,
    pub(crate) tally: Tally,
}

/// Counters of events; a test that must provoke an event asserts its counter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) claims: u64,
    pub(crate) releases: u64,
    /// No node had room.
    pub(crate) refused: u64,
    /// Lost a race, detected by the unique index.
    pub(crate) beaten: u64,
    /// Lost a race, detected otherwise.
    pub(crate) conflicts: u64,
    pub(crate) unavailable: u64,
    /// Commits with an unknown outcome.
    pub(crate) unheard: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.claims += other.claims;
        self.releases += other.releases;
        self.refused += other.refused;
        self.beaten += other.beaten;
        self.conflicts += other.conflicts;
        self.unavailable += other.unavailable;
        self.unheard += other.unheard;
    }
}

/// Attempts of a transaction before the test fails: beyond that it is an error, not contention.
const TRIES: u32 = 200;

/// Returns a random request: mostly slices of every size, some whole nodes, some without a GPU; packed and spread.
fn asked(template: &Allocation, env: &Env) -> Allocation {
    let gpus = [0, 1, 1, 1, 2, 2, 2, 4, 4, 8][below(env, 10) as usize];
    let shape = match below(env, 20) {
        0 => AllocationShape::Baremetal,
        _ => AllocationShape::GpuSlice,
    };
    let strategy = [Strategy::Pack, Strategy::Spread][below(env, 2) as usize];
    let cpus = 1 + gpus * (5 + i64::try_from(below(env, 4)).unwrap()) + gpus / 8;
    let cpus = cpus.min(crate::fleet::CPUS);
    let capacity = Capacity { gpus, cpus, memory_mb: 1000 * cpus, disk_mb: 900 * cpus };
    with(template, env, shape, capacity, strategy)
}

fn with(
    template: &Allocation,
    env: &Env,
    shape: AllocationShape,
    capacity: Capacity,
    strategy: Strategy,
) -> Allocation {
    let (id, now): (AllocationId, _) = (env.id(), env.now());
    // Some are new, some come from the queue: `place` may wait for a lock only for the former.
    let state = [AllocationState::Requested, AllocationState::Placing][below(env, 2) as usize];
    Allocation {
        id,
        name: id.to_string(),
        state,
        shape,
        capacity,
        strategy,
        created_at: now,
        updated_at: now,
        ..template.clone()
    }
}

/// Returns a requested allocation of the fleet's project without a placement.
fn template(fleet: &Fleet, env: &Env) -> Allocation {
    let (tenant, project) = (fleet.project.tenant_id, fleet.project.id);
    let asked = Allocation::requested(env.id(), tenant, project, "", Capacity::default(), env.now());
    Allocation { state: AllocationState::Placing, ..asked }
}

/// Returns the allocation with its placement.
fn placed_at(allocation: &Allocation, placed: &Placed) -> Allocation {
    Allocation {
        state: AllocationState::Provisioning,
        node_id: Some(placed.node),
        incarnation: 1,
        held: placed.held,
        ..allocation.clone()
    }
}

impl Worker {
    pub(crate) fn new(fleet: &Fleet, number: usize, sight: Sight, watch: Stopwatch) -> Self {
        let env = env(fleet.seed * 1000 + 1 + u64::try_from(number).unwrap());
        Self {
            number,
            sight,
            store: fleet.replica(number),
            template: template(fleet, &env),
            env,
            watch,
            held: BTreeMap::new(),
            history: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Claims and releases at random until this many claims were made.
    pub(crate) async fn work(&mut self, claims: u64, most_held: usize) {
        let until = self.tally.claims + claims;
        while self.tally.claims < until {
            let allocation = asked(&self.template, &self.env);
            let full = self.held.len() >= most_held;
            let got = !full && self.claim(&allocation).await;
            if !got && self.held.is_empty() {
                // The other workers hold everything.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // A full fleet is emptied faster, so that it does not stay full.
            let releases = if got { below(&self.env, 2) } else { 1 + below(&self.env, 3) };
            for _ in 0..releases {
                self.release_any().await;
            }
        }
    }

    /// Returns a request for GPUs and little else.
    pub(crate) fn slice(&self, gpus: i64) -> Allocation {
        let capacity = Capacity { gpus, cpus: 1, memory_mb: 1, disk_mb: 1 };
        with(&self.template, &self.env, AllocationShape::GpuSlice, capacity, Strategy::Pack)
    }

    /// Claims the request, and plans again after each lost race; returns whether there was room.
    pub(crate) async fn claim(&mut self, allocation: &Allocation) -> bool {
        if below(&self.env, 50) == 0 {
            self.store.faults().arm(Fault::UnheardCommit);
        }
        for _ in 0..TRIES {
            match self.try_claim(allocation).await {
                Ok(true) => return true,
                Ok(false) => {
                    self.tally.refused += 1;
                    return false;
                }
                Err(error) => self.forgive(error).await,
            }
        }
        panic!("worker {}: a claim did not come to an end: {:?}", self.number, self.tally);
    }

    async fn try_claim(&mut self, allocation: &Allocation) -> Result<bool> {
        let action = match self.sight {
            Sight::Fresh => Choice::Under(self.store.fits().await?),
            Sight::Stale => match stale::choose(&self.store, &self.env, allocation).await? {
                Some(hold) => Choice::Before(hold),
                None => return Ok(false),
            },
        };
        self.claim_by(allocation, &action).await
    }

    /// Makes one attempt, in one transaction, with the given knowledge; returns whether there was room.
    pub(crate) async fn claim_by(&mut self, allocation: &Allocation, action: &Choice) -> Result<bool> {
        let invoked = self.watch.now();
        let Some(placed) = self.transact(allocation, action).await? else { return Ok(false) };
        self.note(&placed, Deed::Claim(allocation.id), invoked);
        self.held.insert(allocation.id, placed);
        self.tally.claims += 1;
        Ok(true)
    }

    async fn transact(&mut self, allocation: &Allocation, action: &Choice) -> Result<Option<Placed>> {
        let now = self.env.now();
        let mut tx = self.store.begin().await?;
        tx.allocation_request(allocation).await?;
        let placed = match action {
            Choice::Under(fits) => place(&mut tx, &self.env, allocation, fits, now - HEARD, now).await?,
            Choice::Before(hold) => Some(stale::hold(&mut tx, &self.env, hold).await?),
        };
        let Some(placed) = placed else {
            tx.rollback().await;
            return Ok(None);
        };
        let mut placing = allocation.clone();
        if allocation.state == AllocationState::Requested {
            placing.state = AllocationState::Placing;
            tx.allocation_move(allocation, &placing, now).await?;
            placing.version += 1;
        }
        tx.allocation_move(&placing, &placed_at(&placing, &placed), now).await?;
        match tx.commit().await {
            Err(StoreError::Unheard) => {
                self.tally.unheard += 1;
                let there = self.store.allocation_lookup(allocation.id).await?.is_some();
                if there { Ok(Some(placed)) } else { Err(StoreError::Unheard) }
            }
            other => other.map(|()| Some(placed)),
        }
    }

    async fn release_any(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let which = below(&self.env, self.held.len() as u64) as usize;
        let id = *self.held.keys().nth(which).unwrap();
        self.release(id).await;
    }

    /// Releases everything.
    pub(crate) async fn release_all(&mut self) {
        while let Some(id) = self.held.keys().next().copied() {
            self.release(id).await;
        }
    }

    async fn release(&mut self, id: AllocationId) {
        let placed = self.held.remove(&id).unwrap();
        for _ in 0..TRIES {
            let invoked = self.watch.now();
            match self.try_release(id).await {
                Ok(()) => {
                    self.note(&placed, Deed::Release(id), invoked);
                    self.tally.releases += 1;
                    return;
                }
                Err(error) => self.forgive(error).await,
            }
        }
        panic!("worker {}: a release did not come to an end: {:?}", self.number, self.tally);
    }

    /// Releases like the undo of the engine's claim.
    async fn try_release(&mut self, id: AllocationId) -> Result<()> {
        let now = self.env.now();
        let before = self.store.allocation_lookup(id).await?.expect("what is held has a row");
        let node = before.node_id.expect("what is held is somewhere");
        let mut tx = self.store.begin().await?;
        tx.node_lock(node).await?;
        tx.unhold(node, id, &before.held, now).await?;
        tx.node_recount(node).await?;
        let after =
            Allocation { state: AllocationState::Failed, held: Capacity::default(), ..before.clone() };
        tx.allocation_move(&before, &after, now).await?;
        match tx.commit().await {
            Err(StoreError::Unheard) => {
                self.tally.unheard += 1;
                let row = self.store.allocation_lookup(id).await?.expect("a row");
                if row.state == AllocationState::Failed { Ok(()) } else { Err(StoreError::Unheard) }
            }
            other => other,
        }
    }

    /// Counts expected errors, which are retried; any other is a bug.
    async fn forgive(&mut self, error: StoreError) {
        match error {
            StoreError::Conflict(what) if what.contains("claims") => self.tally.beaten += 1,
            StoreError::Conflict(_) => self.tally.conflicts += 1,
            StoreError::Unavailable(_) => self.tally.unavailable += 1,
            StoreError::Unheard => {}
            error => panic!("worker {}: {error}", self.number),
        }
        tokio::time::sleep(Duration::from_micros(below(&self.env, 2_000))).await;
    }

    fn note(&mut self, placed: &Placed, deed: Deed, invoked: u64) {
        let (worker, returned) = (self.number, self.watch.now());
        let events = placed.slots.iter().map(|slot| Event { worker, slot: *slot, deed, invoked, returned });
        self.history.extend(events);
    }
}
