//! One decision and claim after the other, each timed by itself and released untimed: the fleet stays as it was filled.

use std::time::{Duration, Instant};

use muster_db::{Result, Store, StoreError};
use muster_engine::{Placed, place};
use muster_ids::World;
use muster_model::allocation::Allocation;
use sqlx::PgPool;

use crate::options::Options;
use crate::tally::Tally;
use crate::{asks, naive};

/// A turn through all asks.
const TURN: usize = 16;

/// Reads what kinds of nodes there are, places, commits: what the engine's claim does, but for the journal.
pub(crate) async fn claim(store: &Store, world: &World, allocation: &Allocation) -> Result<Option<Placed>> {
    let fits = store.fits().await?;
    let mut tx = store.begin().await?;
    // Long enough ago that no run outlasts it: the machines of the fleet send one heartbeat, when they are made.
    let heard_since = world.now() - jiff::SignedDuration::from_hours(24);
    let placed = place(&mut tx, world, allocation, &fits, heard_since, world.now()).await?;
    match placed {
        Some(_) => tx.commit().await?,
        None => tx.rollback().await,
    }
    Ok(placed)
}

/// Gives back what was placed.
async fn release(store: &Store, world: &World, allocation: &Allocation, placed: &Placed) -> Result<()> {
    let mut tx = store.begin().await?;
    tx.node_lock(placed.node).await?;
    tx.unhold(placed.node, allocation.id, &placed.held, world.now()).await?;
    tx.node_recount(placed.node).await?;
    tx.commit().await
}

/// Asks in turn until the time is up. `decide` is what is timed.
async fn measure<'a, F>(
    options: &Options,
    store: &'a Store,
    world: &'a World,
    decide: impl Fn(Allocation) -> F,
) -> Result<()>
where
    F: Future<Output = Result<Option<Placed>>>,
{
    let ticket = asks::ticket(store, world, options).await?;
    let mut tally = Tally::default();
    let once = async |number: usize| {
        let allocation = asks::ask(&ticket, number);
        let started = Instant::now();
        let placed = decide(allocation.clone()).await?;
        let taken = started.elapsed();
        if let Some(placed) = &placed {
            release(store, world, &allocation, placed).await?;
        }
        Ok::<_, StoreError>((taken, placed.is_some()))
    };
    // Not counted: statements are prepared and their plans settled by then.
    for number in 0..options.warm {
        once(number).await?;
    }
    crate::wait_for_the_word().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let (started, length) = (Instant::now(), Duration::from_secs_f64(options.seconds));
    // Whole turns only: every run asks for the same.
    for number in (0..).take(options.most) {
        if number % TURN == 0 && number > 0 && started.elapsed() >= length {
            break;
        }
        let (taken, placed) = once(number).await?;
        tally.note(taken, placed);
    }
    let decided = tally.taken.len();
    // The rate is that of the timed parts.
    let seconds = tally.taken.iter().sum::<f64>() / 1e6;
    tally.print(decided, seconds);
    Ok(())
}

pub(crate) async fn ours(options: &Options, store: &Store) -> Result<()> {
    let world = World::system();
    measure(options, store, &world, async |allocation| claim(store, &world, &allocation).await).await
}

pub(crate) async fn naive(options: &Options, store: &Store) -> Result<()> {
    let world = World::system();
    let pool = PgPool::connect(&options.database).await?;
    measure(options, store, &world, async |allocation| naive::place(&pool, store, &world, &allocation).await)
        .await
}
