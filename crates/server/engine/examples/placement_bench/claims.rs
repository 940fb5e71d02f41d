//! Workers that claim as fast as they can: measures committed claims per second.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_db::{Result, Store, StoreError};
use muster_ids::Env;
use tokio::task::JoinSet;

use crate::options::Options;
use crate::tally::Tally;
use crate::{asks, decisions};

async fn worker(
    store: Store,
    ticket: muster_model::allocation::Allocation,
    number: usize,
    until: Instant,
    left: Arc<AtomicUsize>,
) -> Result<Tally> {
    let (env, mut tally) = (Env::system(), Tally::default());
    // Each starts at another offset in the requests, like independent users.
    let mut count = number * 5;
    while Instant::now() < until
        && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    {
        let allocation = asks::ask(&ticket, count);
        count += 1;
        let started = Instant::now();
        let placed = loop {
            match decisions::claim(&store, &env, &allocation).await {
                Ok(placed) => break placed,
                Err(StoreError::Conflict(_) | StoreError::Unavailable(_)) => tally.again += 1,
                Err(error) => return Err(error),
            }
        };
        tally.note(started.elapsed(), placed.is_some());
    }
    Ok(tally)
}

pub(crate) async fn run(options: &Options, store: &Store) -> Result<()> {
    let env = Env::system();
    let mut tickets = Vec::new();
    for _ in 0..options.workers {
        tickets.push(asks::ticket(store, &env, options).await?);
    }
    crate::wait_for_the_word().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let started = Instant::now();
    let until = started + Duration::from_secs_f64(options.seconds);
    let left = Arc::new(AtomicUsize::new(options.most));
    let mut workers = JoinSet::new();
    for (number, ticket) in tickets.into_iter().enumerate() {
        workers.spawn(worker(store.clone(), ticket, number, until, left.clone()));
    }
    let mut tally = Tally::default();
    for done in workers.join_all().await {
        tally.add(done?);
    }
    let (placed, seconds) = (tally.placed, started.elapsed().as_secs_f64());
    tally.print(placed, seconds);
    Ok(())
}
