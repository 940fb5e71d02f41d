//! One worker: claims, holds for a while, releases, and writes down what it did and when.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_db::{Fault, Result, Store, StoreError};
use muster_engine::{Placed, place};
use muster_ids::{AllocationId, World};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::node::Capacity;
use muster_model::placement::Strategy;

use crate::fleet::{Fleet, below, world};
use crate::history::{Deed, Event, Stopwatch};
use crate::stale::{self, Choice};

/// No run lasts as long, so that the one heartbeat of each machine is in time.
const HEARD: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// How a worker chooses what it claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// As the engine does: by `place`, under the node's lock.
    Fresh,
    /// A planted bug: it chooses before its transaction begins, and believes what it saw.
    Stale,
}

/// A worker with what it holds.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) sight: Sight,
    store: Store,
    pub(crate) world: World,
    watch: Stopwatch,
    template: Allocation,
    /// Everything that it has and has not given back, as far as it knows.
    pub(crate) held: BTreeMap<AllocationId, Placed>,
    pub(crate) history: Vec<Event>,
    pub(crate) tally: Tally,
}

/// How often things happened; a test that wants to have provoked something asserts that it did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) claims: u64,
    pub(crate) releases: u64,
    /// Nobody had room.
    pub(crate) refused: u64,
    /// Another was faster, as the unique index told.
    pub(crate) beaten: u64,
    /// Another was faster, as something else told.
    pub(crate) conflicts: u64,
    pub(crate) unavailable: u64,
    /// Commits whose answer was not heard.
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

/// So often is a transaction tried before the test gives up on it: something is wrong then, and not merely contended.
const TRIES: u32 = 200;

/// What is asked for: mostly slices of every size, some whole nodes, some without a GPU; packed and spread.
fn asked(template: &Allocation, world: &World) -> Allocation {
    let gpus = [0, 1, 1, 1, 2, 2, 2, 4, 4, 8][below(world, 10) as usize];
    let shape = match below(world, 20) {
        0 => AllocationShape::Baremetal,
        _ => AllocationShape::GpuSlice,
    };
    let strategy = [Strategy::Pack, Strategy::Spread][below(world, 2) as usize];
    let cpus = 1 + gpus * (5 + i64::try_from(below(world, 4)).unwrap()) + gpus / 8;
    let cpus = cpus.min(crate::fleet::CPUS);
    let capacity = Capacity { gpus, cpus, memory_mb: 1000 * cpus, disk_mb: 900 * cpus };
    with(template, world, shape, capacity, strategy)
}

fn with(
    template: &Allocation,
    world: &World,
    shape: AllocationShape,
    capacity: Capacity,
    strategy: Strategy,
) -> Allocation {
    let (id, now): (AllocationId, _) = (world.id(), world.now());
    // Some come fresh, some have waited in line: `place` may wait for a lock on behalf of the former only.
    let state = [AllocationState::Requested, AllocationState::Placing][below(world, 2) as usize];
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

/// An allocation of the fleet's project that was asked for and has no place yet.
fn template(fleet: &Fleet, world: &World) -> Allocation {
    let (tenant, project) = (fleet.project.tenant_id, fleet.project.id);
    let asked = Allocation::requested(world.id(), tenant, project, "", Capacity::default(), world.now());
    Allocation { state: AllocationState::Placing, ..asked }
}

/// The allocation with what it was given.
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
        let world = world(fleet.seed * 1000 + 1 + u64::try_from(number).unwrap());
        Self {
            number,
            sight,
            store: fleet.replica(number),
            template: template(fleet, &world),
            world,
            watch,
            held: BTreeMap::new(),
            history: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Claims and releases by chance until so many claims were made.
    pub(crate) async fn work(&mut self, claims: u64, most_held: usize) {
        let until = self.tally.claims + claims;
        while self.tally.claims < until {
            let allocation = asked(&self.template, &self.world);
            let full = self.held.len() >= most_held;
            let got = !full && self.claim(&allocation).await;
            if !got && self.held.is_empty() {
                // Others have it all.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // What is full empties faster, so that it does not stay full.
            let releases = if got { below(&self.world, 2) } else { 1 + below(&self.world, 3) };
            for _ in 0..releases {
                self.release_any().await;
            }
        }
    }

    /// What somebody asks for who wants little beside GPUs.
    pub(crate) fn slice(&self, gpus: i64) -> Allocation {
        let capacity = Capacity { gpus, cpus: 1, memory_mb: 1, disk_mb: 1 };
        with(&self.template, &self.world, AllocationShape::GpuSlice, capacity, Strategy::Pack)
    }

    /// Claims what is asked for, and plans again as often as another was faster; says whether there was room.
    pub(crate) async fn claim(&mut self, allocation: &Allocation) -> bool {
        if below(&self.world, 50) == 0 {
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
        let choice = match self.sight {
            Sight::Fresh => Choice::Under(self.store.fits().await?),
            Sight::Stale => match stale::choose(&self.store, &self.world, allocation).await? {
                Some(hold) => Choice::Before(hold),
                None => return Ok(false),
            },
        };
        self.claim_by(allocation, &choice).await
    }

    /// One attempt, of one transaction, with what is known before it; says whether there was room.
    pub(crate) async fn claim_by(&mut self, allocation: &Allocation, choice: &Choice) -> Result<bool> {
        let invoked = self.watch.now();
        let Some(placed) = self.transact(allocation, choice).await? else { return Ok(false) };
        self.note(&placed, Deed::Claim(allocation.id), invoked);
        self.held.insert(allocation.id, placed);
        self.tally.claims += 1;
        Ok(true)
    }

    async fn transact(&mut self, allocation: &Allocation, choice: &Choice) -> Result<Option<Placed>> {
        let now = self.world.now();
        let mut tx = self.store.begin().await?;
        tx.allocation_request(allocation).await?;
        let placed = match choice {
            Choice::Under(fits) => place(&mut tx, &self.world, allocation, fits, now - HEARD, now).await?,
            Choice::Before(hold) => Some(stale::hold(&mut tx, &self.world, hold).await?),
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
        let which = below(&self.world, self.held.len() as u64) as usize;
        let id = *self.held.keys().nth(which).unwrap();
        self.release(id).await;
    }

    /// Gives everything back.
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

    /// As the undo of the engine's claim gives back.
    async fn try_release(&mut self, id: AllocationId) -> Result<()> {
        let now = self.world.now();
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

    /// Counts what may happen and is tried again; anything else is a fault of ours.
    async fn forgive(&mut self, error: StoreError) {
        match error {
            StoreError::Conflict(what) if what.contains("claims") => self.tally.beaten += 1,
            StoreError::Conflict(_) => self.tally.conflicts += 1,
            StoreError::Unavailable(_) => self.tally.unavailable += 1,
            StoreError::Unheard => {}
            error => panic!("worker {}: {error}", self.number),
        }
        tokio::time::sleep(Duration::from_micros(below(&self.world, 2_000))).await;
    }

    fn note(&mut self, placed: &Placed, deed: Deed, invoked: u64) {
        let (worker, returned) = (self.number, self.watch.now());
        let events = placed.slots.iter().map(|slot| Event { worker, slot: *slot, deed, invoked, returned });
        self.history.extend(events);
    }
}
