//! Sequential decisions and claims, each timed on its own and released untimed, so that the fleet stays as filled.

use std::time::{Duration, Instant};

use muster_db::{Result, Store, StoreError};
use muster_engine::{Placed, place};
use muster_ids::Env;
use muster_model::allocation::Allocation;
use sqlx::PgPool;

use crate::options::Options;
use crate::tally::Tally;
use crate::{asks, naive};

/// Number of requests in one cycle.
const TURN: usize = 16;

/// Reads the kinds of nodes, places, commits: the engine's claim without the journal.
pub(crate) async fn claim(store: &Store, env: &Env, allocation: &Allocation) -> Result<Option<Placed>> {
    let fits = store.fits().await?;
    let mut tx = store.begin().await?;
    // Longer than any run: the nodes of the fleet send a single heartbeat, when they are created.
    let heard_since = env.now() - jiff::SignedDuration::from_hours(24);
    let placed = place(&mut tx, env, allocation, &fits, heard_since, env.now()).await?;
    match placed {
        Some(_) => tx.commit().await?,
        None => tx.rollback().await,
    }
    Ok(placed)
}

/// Releases a placement.
async fn release(store: &Store, env: &Env, allocation: &Allocation, placed: &Placed) -> Result<()> {
    let mut tx = store.begin().await?;
    tx.node_lock(placed.node).await?;
    tx.unhold(placed.node, allocation.id, &placed.held, env.now()).await?;
    tx.node_recount(placed.node).await?;
    tx.commit().await
}

/// Runs the requests in turn until the time is up. Only `decide` is timed.
async fn measure<'a, F>(
    options: &Options,
    store: &'a Store,
    env: &'a Env,
    decide: impl Fn(Allocation) -> F,
) -> Result<()>
where
    F: Future<Output = Result<Option<Placed>>>,
{
    let ticket = asks::ticket(store, env, options).await?;
    let mut tally = Tally::default();
    let once = async |number: usize| {
        let allocation = asks::ask(&ticket, number);
        let started = Instant::now();
        let placed = decide(allocation.clone()).await?;
        let taken = started.elapsed();
        if let Some(placed) = &placed {
            release(store, env, &allocation, placed).await?;
        }
        Ok::<_, StoreError>((taken, placed.is_some()))
    };
    // Warm-up, not counted: statements are prepared and their plans settled by then.
    for number in 0..options.warm {
        once(number).await?;
    }
    crate::wait_for_the_word().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let (started, length) = (Instant::now(), Duration::from_secs_f64(options.seconds));
    // Whole cycles only: every run has the same requests.
    for number in (0..).take(options.most) {
        if number % TURN == 0 && number > 0 && started.elapsed() >= length {
            break;
        }
        let (taken, placed) = once(number).await?;
        tally.note(taken, placed);
    }
    let decided = tally.taken.len();
    // The rate of the timed parts.
    let seconds = tally.taken.iter().sum::<f64>() / 1e6;
    tally.print(decided, seconds);
    Ok(())
}

pub(crate) async fn ours(options: &Options, store: &Store) -> Result<()> {
    let env = Env::system();
    measure(options, store, &env, async |allocation| claim(store, &env, &allocation).await).await
}

pub(crate) async fn naive(options: &Options, store: &Store) -> Result<()> {
    let env = Env::system();
    let pool = PgPool::connect(&options.database).await?;
    measure(options, store, &env, async |allocation| naive::place(&pool, store, &env, &allocation).await)
        .await
}
