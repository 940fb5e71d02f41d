//! Events: measures the delay between a command on one server and its event at many listeners of another.
//!
//! One command is sent at a time, and the next only when all listeners have received its event: this measures latency, not
//! throughput. The clock starts when the request is sent, so that the command itself is included; the time since its response is
//! reported beside it. Raw LISTEN and NOTIFY on the same database are interleaved with it.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::http::Connection;
use crate::notify::Notifier;
use crate::options::number;
use crate::tally::percentile;

const USAGE: &str = "\
usage: bench-load events --address HOST:PORT --stream HOST:PORT --targets FILE --run NAME [OPTIONS]

  --address HOST:PORT   the server on which things are made
  --stream HOST:PORT    the server that is listened to
  --targets FILE        as for requests; the first line's actor and its first project
  --run NAME            goes into every name that is made
  --subscribers N       who listen [1000]
  --count N             things that are made [100]
  --postgres HOST:PORT  measure raw NOTIFY in the database `bench` of the user `postgres`, in turn with the events";

/// Timeout until all listeners have received the event.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two commands, until the system is idle.
const PAUSE: Duration = Duration::from_millis(50);

/// Command to run.
pub(crate) struct Options {
    address: String,
    stream: String,
    targets: PathBuf,
    run: String,
    subscribers: usize,
    count: usize,
    postgres: String,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            address: String::new(),
            stream: String::new(),
            targets: PathBuf::new(),
            run: String::new(),
            subscribers: 1000,
            count: 100,
            postgres: String::new(),
        };
        while let Some(name) = words.next() {
            if name == "--help" {
                return Err(USAGE.to_owned());
            }
            let value = words.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
            match name.as_str() {
                "--address" => options.address = value,
                "--stream" => options.stream = value,
                "--targets" => options.targets = value.into(),
                "--run" => options.run = value,
                "--subscribers" => options.subscribers = number(&name, &value)?,
                "--count" => options.count = number(&name, &value)?,
                "--postgres" => options.postgres = value,
                _ => return Err(format!("there is no option {name}\n\n{USAGE}")),
            }
        }
        let needed = [&options.address, &options.stream, &options.run];
        if needed.iter().any(|value| value.is_empty()) || options.targets.as_os_str().is_empty() {
            return Err(USAGE.to_owned());
        }
        Ok(options)
    }
}

/// The awaited event, and the listeners that have received it.
#[derive(Default)]
struct Awaited {
    name: RefCell<String>,
    heard: RefCell<Vec<Instant>>,
    connected: Cell<usize>,
    lost: RefCell<Option<String>>,
    changed: Notify,
}

/// One listener.
async fn subscriber(address: String, request: Rc<str>, awaited: Rc<Awaited>) {
    if let Err(error) = listen(&address, &request, &awaited).await {
        awaited.lost.borrow_mut().get_or_insert(format!("a stream ended: {error}"));
        awaited.changed.notify_one();
    }
}

async fn listen(address: &str, request: &str, awaited: &Awaited) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::with_capacity(8 * 1024);
    let mut open = false;
    loop {
        if stream.read_buf(&mut text).await? == 0 {
            return Err(std::io::Error::other(String::from_utf8_lossy(&text).into_owned()));
        }
        let now = Instant::now();
        if !open {
            if !text.windows(4).any(|window| window == b"\r\n\r\n") {
                continue;
            }
            if !text.starts_with(b"HTTP/1.1 200") {
                return Err(std::io::Error::other(String::from_utf8_lossy(&text).into_owned()));
            }
            open = true;
            awaited.connected.set(awaited.connected.get() + 1);
            awaited.changed.notify_one();
            text.clear();
            continue;
        }
        let found = {
            let name = awaited.name.borrow();
            !name.is_empty() && text.windows(name.len()).any(|window| window == name.as_bytes())
        };
        if found {
            awaited.heard.borrow_mut().push(now);
            awaited.changed.notify_one();
            text.clear();
        } else if text.len() > 64 * 1024 {
            text.clear();
        }
    }
}

impl Awaited {
    /// Waits until the count reaches the wanted number.
    async fn until(&self, what: &str, count: impl Fn(&Self) -> usize, wanted: usize) -> Result<(), String> {
        let all = async {
            while count(self) < wanted {
                if let Some(why) = self.lost.borrow().as_ref() {
                    return Err(why.clone());
                }
                self.changed.notified().await;
            }
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, all).await {
            Ok(done) => done,
            Err(_) => Err(format!("after {PATIENCE:?} only {} of {wanted} {what}", count(self))),
        }
    }
}

fn told(mut micros: Vec<u32>) -> String {
    micros.sort_unstable();
    let at = |share| f64::from(percentile(&micros, share)) / 1000.0;
    format!(
        "{{\"count\": {}, \"p50\": {}, \"p90\": {}, \"p99\": {}, \"max\": {}}}",
        micros.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    )
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

pub(crate) async fn run(options: Options) -> Result<(), String> {
    let text =
        std::fs::read_to_string(&options.targets).map_err(|error| format!("the targets' file: {error}"))?;
    let mut words = text.split_whitespace();
    let (Some(token), Some(_tenant), Some(project)) = (words.next(), words.next(), words.next()) else {
        return Err("the targets' file names nobody".to_owned());
    };
    let awaited = Rc::new(Awaited::default());
    let request: Rc<str> = format!(
        "GET /v1/events/stream?project={project} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\n\r\n",
        options.stream
    )
    .into();
    for number in 0..options.subscribers {
        tokio::task::spawn_local(subscriber(options.stream.clone(), request.clone(), awaited.clone()));
        if number % 50 == 49 {
            awaited.until("are connected", |seen| seen.connected.get(), number + 1).await?;
        }
    }
    awaited.until("are connected", |seen| seen.connected.get(), options.subscribers).await?;
    let mut connection =
        Connection::open(&options.address).await.map_err(|error| format!("cannot connect: {error}"))?;
    let mut raw = match options.postgres.is_empty() {
        true => None,
        false => {
            Some(Notifier::open(&options.postgres).await.map_err(|error| format!("PostgreSQL: {error}"))?)
        }
    };
    let (mut from_sent, mut from_answer, mut notified) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..options.count {
        tokio::time::sleep(PAUSE).await;
        let name = format!("{}-event-{number}-", options.run);
        let body = format!("{{\"name\":\"{name}x\",\"permissions\":[]}}");
        awaited.name.replace(name.clone());
        awaited.heard.borrow_mut().clear();
        let request = format!(
            "POST /v1/projects/{project}/service-accounts HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Idempotency-Key: {name}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            options.address,
            body.len()
        );
        let sent = Instant::now();
        let answer = connection.ask(&request).await.map_err(|error| error.to_string())?;
        let answered = Instant::now();
        if !(200..300).contains(&answer.status) {
            return Err(format!("answered with {}: {}", answer.status, connection.body()));
        }
        awaited.until("have heard", |seen| seen.heard.borrow().len(), options.subscribers).await?;
        for at in awaited.heard.borrow().iter() {
            from_sent.push(micros(at.saturating_duration_since(sent)));
            from_answer.push(micros(at.saturating_duration_since(answered)));
        }
        if let Some(raw) = &mut raw {
            tokio::time::sleep(PAUSE).await;
            notified.push(micros(raw.once().await.map_err(|error| format!("PostgreSQL: {error}"))?));
        }
    }
    println!(
        "{{\"subscribers\": {}, \"events\": {}, \"ok\": {}, \"from_sent_ms\": {}, \"from_answer_ms\": {}, \"raw_ms\": {}}}",
        options.subscribers,
        options.count,
        from_sent.len(),
        told(from_sent),
        told(from_answer),
        told(notified)
    );
    Ok(())
}
