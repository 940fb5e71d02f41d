//! Follows the audit during the load: the lag of sealing, and whether every acknowledged command is there exactly once.
//!
//! It uses only the public API. Every acknowledged command is one entry in its tenant's chain, so the head of
//! the chain, less its initial value, is the number of sealed commands.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::http::Connection;
use crate::target::Target;

/// Twenty reads a second cost the server next to nothing and detect every relevant delay.
const LOOK: Duration = Duration::from_millis(50);
/// A sealer that takes longer than this has not missed its goal, it has stopped.
const STOPPED: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Seen {
    looks: u32,
    lag_max: Duration,
    after_end: Duration,
    entries: i64,
    acknowledged: i64,
}

pub(crate) struct Sealed {
    before: Vec<i64>,
    seen: RefCell<Seen>,
}

/// The number of the last sealed entry.
async fn head(connection: &mut Connection, address: &str, target: &Target) -> Result<i64, String> {
    let (tenant, token) = (&target.tenant, &target.token);
    let request = format!(
        "GET /v1/audit/head?tenant={tenant} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let answer =
        connection.ask(&request).await.map_err(|error| format!("asking for the audit's head: {error}"))?;
    let number = connection.body().split_once("\"sequence\":").map(|(_, rest)| rest);
    let digits = number.map(|text| text.chars().take_while(char::is_ascii_digit).collect::<String>());
    match (answer.status, digits.and_then(|digits| digits.parse().ok())) {
        (200, Some(sequence)) => Ok(sequence),
        (status, _) => Err(format!("the audit's head was answered with {status}: {}", connection.body())),
    }
}

async fn heads(address: &str, targets: &[Target]) -> Result<Vec<i64>, String> {
    let mut connection =
        Connection::open(address).await.map_err(|error| format!("cannot connect: {error}"))?;
    let mut heads = Vec::with_capacity(targets.len());
    for target in targets {
        heads.push(head(&mut connection, address, target).await?);
    }
    Ok(heads)
}

impl Sealed {
    /// Notes where the chains stand, once they stand still.
    pub(crate) async fn start(address: &str, targets: &[Target]) -> Result<Self, String> {
        let mut before = heads(address, targets).await?;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = heads(address, targets).await?;
            if now == before {
                return Ok(Self { before, seen: RefCell::default() });
            }
            before = now;
        }
    }

    /// Polls one chain, with this many active clients, until it is dropped; one sealer serves all chains, so one
    /// represents all.
    pub(crate) async fn watch(&self, address: &str, target: &Target, clients: usize) -> Result<(), String> {
        let mut connection = Connection::open(address).await.map_err(|error| error.to_string())?;
        loop {
            tokio::time::sleep(LOOK).await;
            let asked = Instant::now();
            let sealed = head(&mut connection, address, target).await? - self.before[0];
            // The sealed entries may include a few commands with responses in flight, one for each client: so the
            // oldest one that may still be open is that much further back. An upper bound, on purpose.
            let first_open = usize::try_from(sealed).unwrap_or(0).saturating_sub(clients);
            let acknowledged = target.acknowledged.borrow();
            let lag = acknowledged
                .get(first_open)
                .map_or(Duration::ZERO, |at| asked.saturating_duration_since(*at));
            let mut seen = self.seen.borrow_mut();
            seen.looks += 1;
            seen.lag_max = seen.lag_max.max(lag);
        }
    }

    /// After the load: waits until every chain holds all acknowledged commands, and checks once more for anything beyond.
    pub(crate) async fn settle(&self, address: &str, targets: &[Target]) -> Result<(), String> {
        let ended = Instant::now();
        let acknowledged: i64 = targets.iter().map(|target| target.acknowledged.borrow().len() as i64).sum();
        let grown =
            |now: Vec<i64>| now.iter().zip(&self.before).map(|(now, before)| now - before).sum::<i64>();
        let mut entries = grown(heads(address, targets).await?);
        while entries < acknowledged && ended.elapsed() < STOPPED {
            tokio::time::sleep(Duration::from_millis(5)).await;
            entries = grown(heads(address, targets).await?);
        }
        let after_end = ended.elapsed();
        tokio::time::sleep(Duration::from_millis(300)).await;
        entries = grown(heads(address, targets).await?).max(entries);
        let mut seen = self.seen.borrow_mut();
        *seen = Seen { looks: seen.looks, lag_max: seen.lag_max, after_end, entries, acknowledged };
        Ok(())
    }

    pub(crate) fn json(&self) -> String {
        let seen = self.seen.borrow();
        format!(
            "{{\"acknowledged\": {}, \"entries\": {}, \"exactly\": {}, \"lag_max_ms\": {:.1}, \"looks\": {}, \
             \"after_end_ms\": {:.1}}}",
            seen.acknowledged,
            seen.entries,
            seen.acknowledged == seen.entries,
            seen.lag_max.as_secs_f64() * 1000.0,
            seen.looks,
            seen.after_end.as_secs_f64() * 1000.0,
        )
    }
}
