//! Places allocations on a fleet that is already in the database, and reports the time. `bench/run --only placement` fills
//! the fleet and drives this program; use a release build.
//!
//! It prints `ready` when it is prepared and starts when it reads a line, so that two of them can start together.

mod asks;
mod claims;
mod decisions;
mod naive;
mod options;
mod tally;

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use muster_db::{Location, Store, StoreError};
use options::{Mode, Options};

/// Prints that it is ready, and waits for the start.
fn wait_for_the_word() -> std::io::Result<()> {
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_line(&mut String::new()).map(drop)
}

async fn run(options: &Options) -> Result<(), StoreError> {
    // A connection for each worker, and one for reads.
    let connections = u32::try_from(options.workers).unwrap_or(u32::MAX).saturating_add(1);
    let store = Store::open(&Location::parse(&options.database), connections).await?;
    match options.mode {
        // Opening has created the schema, which is all that this mode does.
        Mode::Open => Ok(()),
        Mode::Ours => decisions::ours(options, &store).await,
        Mode::Naive => decisions::naive(options, &store).await,
        Mode::Claims => claims::run(options, &store).await,
    }
}

fn main() -> ExitCode {
    let done = Options::parse(std::env::args().skip(1)).and_then(|options| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(run(&options)).map_err(|error| error.to_string())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("placement_bench: {message}");
            ExitCode::FAILURE
        }
    }
}
