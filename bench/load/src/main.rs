//! Asks a server the same thing over and over, from a number of clients at once, and counts what comes back.
//!
//! One thread serves all clients: the generator shares the machine with what it measures, and must take little of it.
//! It knows no server: method, path and body are templates, so that ours and a peer's are driven by the same code.

mod http;
mod options;
mod sealed;
mod target;

use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::Connection;
use options::Options;
use sealed::Sealed;
use target::Target;

/// How long a request may take before the run counts as broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one run saw, shared by all clients of the one thread.
#[derive(Default)]
struct Tally {
    latencies: RefCell<Vec<u32>>,
    failures: RefCell<std::collections::BTreeMap<u16, u64>>,
    first_failure: RefCell<Option<String>>,
    bytes: Cell<u64>,
    sent: Cell<u64>,
}

impl Tally {
    fn failed(&self, status: u16, what: String) {
        *self.failures.borrow_mut().entry(status).or_default() += 1;
        self.first_failure.borrow_mut().get_or_insert(what);
    }
}

/// When a client must stop asking.
struct Until {
    at: Instant,
    requests: Option<u64>,
}

impl Until {
    fn reached(&self, sent: u64) -> bool {
        self.requests.map_or_else(|| Instant::now() >= self.at, |most| sent >= most)
    }
}

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
        tally.bytes.set(tally.bytes.get() + answer.length as u64);
        if (200..300).contains(&answer.status) {
            let taken = u32::try_from((now - started).as_micros()).unwrap_or(u32::MAX);
            tally.latencies.borrow_mut().push(taken);
            target.acknowledged.borrow_mut().push(now);
        } else {
            tally.failed(answer.status, connection.body().to_owned());
        }
    }
}

/// The value below which `share` of the sorted values lie.
fn percentile(sorted: &[u32], share: f64) -> u32 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// Prints everything as one JSON object; nothing in it needs escaping.
fn report(options: &Options, tally: &Tally, seconds: f64, sealed: Option<&Sealed>) {
    let mut sorted = tally.latencies.take();
    sorted.sort_unstable();
    let failures = tally.failures.borrow();
    let listed: Vec<String> =
        failures.iter().map(|(status, count)| format!("\"{status}\": {count}")).collect();
    let quantile = |share| f64::from(percentile(&sorted, share)) / 1000.0;
    println!(
        "{{\"clients\": {}, \"seconds\": {seconds:.6}, \"ok\": {}, \"non2xx\": {}, \"failures\": {{{}}}, \
         \"per_second\": {:.3}, \"bytes\": {}, \"latency_ms\": {{\"p50\": {}, \"p90\": {}, \"p99\": {}, \"max\": {}}}, \
         \"sealed\": {}}}",
        options.clients,
        sorted.len(),
        failures.values().sum::<u64>(),
        listed.join(", "),
        sorted.len() as f64 / seconds,
        tally.bytes.get(),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(1.0),
        sealed.map_or_else(|| "null".to_owned(), Sealed::json),
    );
    if let Some(what) = tally.first_failure.borrow().as_ref() {
        eprintln!("bench-load: the first failure: {what}");
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
    report(&options, &tally, seconds, sealed.as_deref());
    Ok(())
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
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
    match runtime.block_on(local.run_until(run(options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-load: {message}");
            ExitCode::FAILURE
        }
    }
}
