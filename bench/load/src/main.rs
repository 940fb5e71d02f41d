//! Sends a server the same request repeatedly, from a number of concurrent clients, and counts the responses.
//!
//! One thread serves all clients: the generator shares the machine with the server that it measures, and must use little of it.
//! It knows no server: method, path and body are templates, so that ours and a peer's are driven by the same code. Pushing
//! and pulling images takes several dependent requests, and is a separate mode (`registry`); so are operations, each of which
//! can be submitted only once (`operations`), and listening to events (`events`).

mod events;
mod http;
mod json;
mod notify;
mod operations;
mod options;
mod registry;
mod sealed;
mod tally;
mod target;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::Connection;
use options::Options;
use sealed::Sealed;
use tally::{Tally, Until};
use target::Target;

/// How long a request may take before the run counts as broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// One client: one connection, one request under way at a time.
async fn client(
    number: usize,
    options: Rc<Options>,
    targets: Rc<Vec<Target>>,
    tally: Rc<Tally>,
    until: Rc<Until>,
) {
    let target = &targets[number % targets.len()];
    let mut connection = match Connection::open(&options.address).await {
        Ok(connection) => connection,
        Err(error) => return tally.failed(0, format!("cannot connect: {error}")),
    };
    // Names hold the run and the client, so that no two requests of a benchmark ever make the same thing.
    let mut count = 0_u64;
    while !until.reached(tally.sent.get()) {
        tally.sent.set(tally.sent.get() + 1);
        let name = format!("{}-{number}-{count}", options.run);
        let request = target.request(&options, &name, count);
        count += 1;
        let started = Instant::now();
        let answer = match tokio::time::timeout(PATIENCE, connection.ask(&request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return tally.failed(0, format!("the connection broke: {error}")),
            Err(_) => return tally.failed(0, "no answer within a minute".to_owned()),
        };
        let now = Instant::now();
        tally.add_bytes(answer.length as u64);
        if (200..300).contains(&answer.status) {
            tally.done(now - started);
            target.acknowledged.borrow_mut().push(now);
        } else {
            tally.failed(answer.status, connection.body().to_owned());
        }
    }
}

async fn run(options: Options) -> Result<(), String> {
    let targets = Rc::new(target::read(&options.targets)?);
    let options = Rc::new(options);
    let sealed = match options.watch_seal {
        true => Some(Rc::new(Sealed::start(&options.address, &targets).await?)),
        false => None,
    };
    let tally = Rc::new(Tally::default());
    let started = Instant::now();
    let until = Rc::new(Until { at: started + options.duration, requests: options.requests });
    let clients: Vec<_> = (0..options.clients)
        .map(|number| {
            let parts = (options.clone(), targets.clone(), tally.clone(), until.clone());
            tokio::task::spawn_local(client(number, parts.0, parts.1, parts.2, parts.3))
        })
        .collect();
    let watcher = sealed.clone().map(|sealed| {
        let (targets, address) = (targets.clone(), options.address.clone());
        let clients = options.clients.div_ceil(targets.len());
        tokio::task::spawn_local(async move { sealed.watch(&address, &targets[0], clients).await })
    });
    for client in clients {
        client.await.map_err(|error| error.to_string())?;
    }
    let seconds = started.elapsed().as_secs_f64();
    if let (Some(sealed), Some(watcher)) = (&sealed, watcher) {
        watcher.abort();
        sealed.settle(&options.address, &targets).await?;
    }
    tally.report(options.clients, seconds, sealed.as_deref());
    Ok(())
}

/// The mode chosen on the command line.
enum Mode {
    Requests(Options),
    Registry(registry::Options),
    Operations(operations::Options),
    Events(events::Options),
}

fn parse() -> Result<Mode, String> {
    let mut words = std::env::args().skip(1).peekable();
    match words.next_if(|word| ["registry", "operations", "events"].contains(&word.as_str())).as_deref() {
        Some("registry") => registry::Options::parse(words).map(Mode::Registry),
        Some("events") => events::Options::parse(words).map(Mode::Events),
        Some(_) => operations::Options::parse(words).map(Mode::Operations),
        None => Options::parse(words).map(Mode::Requests),
    }
}

fn main() -> ExitCode {
    let mode = match parse() {
        Ok(mode) => mode,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench-load: {error}");
            return ExitCode::FAILURE;
        }
    };
    let local = tokio::task::LocalSet::new();
    let work = async {
        match mode {
            Mode::Requests(options) => run(options).await,
            Mode::Registry(options) => registry::run(options).await,
            Mode::Operations(options) => operations::run(options).await,
            Mode::Events(options) => events::run(options).await,
        }
    };
    match runtime.block_on(local.run_until(work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-load: {message}");
            ExitCode::FAILURE
        }
    }
}
