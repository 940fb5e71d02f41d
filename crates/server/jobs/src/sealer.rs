//! The sealer: outbox relay and audit hash chain, one per database, leased and fenced. It assigns sequence numbers to
//! committed rows and chains the audit.
//!
//! Numbers assigned by the commands themselves were rejected: every writer of a tenant would queue for one counter, and a
//! database sequence yields numbers that commit out of order, so that a reader following them would miss rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Lease, OutboxRow, SealBatch, StoreError};
use muster_ids::TypedId as _;
use muster_model::Scope;
use muster_model::audit::{Entry, GENESIS, Sealed, chain_hash};
use muster_model::event::{Draft, stream_name};
use serde_json::json;

use muster_control::Platform;

const LEASE: SignedDuration = SignedDuration::from_secs(5);
const EXTEND: Duration = Duration::from_secs(2);
/// Interval of full scans of the outbox; other rounds continue from the last position.
const EVERYTHING: Duration = Duration::from_millis(800);
/// How far before the newest sealed row a late one is still found without a full scan.
const MARGIN: Duration = Duration::from_millis(250);
/// Rows per round.
const BATCH: i64 = 1000;
/// Poll interval under load. Commits of other replicas send no wake-up here.
const BUSY: Duration = Duration::from_millis(10);
/// Poll interval when idle.
const IDLE: Duration = Duration::from_millis(200);

/// Counters as known to this sealer. It owns them while it holds the lease.
type Heads = HashMap<String, (i64, Option<String>)>;

/// Error of a round.
pub type SealError = StoreError;

/// A sealer that holds the lease, or waits for it.
pub struct Sealer {
    platform: Arc<Platform>,
    lease: Option<Lease>,
    heads: Heads,
    extended: std::time::Instant,
    /// First id of the next round.
    from: uuid::Uuid,
    /// Time of the last full scan; `None` forces one in the next round.
    looked_at_all: Option<std::time::Instant>,
}

impl Sealer {
    /// Creates a sealer without a lease.
    pub fn new(platform: Arc<Platform>) -> Self {
        Self {
            platform,
            lease: None,
            heads: HashMap::new(),
            extended: std::time::Instant::now(),
            from: uuid::Uuid::nil(),
            looked_at_all: None,
        }
    }

    /// Acquires the lease if it is free; returns whether it is held.
    pub async fn take_lease(&mut self) -> Result<bool, SealError> {
        if self.lease.is_none() {
            let holder = self.platform.replica.to_string();
            let now = self.platform.env.now();
            self.lease = self.platform.store.lease_acquire("sealer", &holder, LEASE, now).await?;
            self.heads.clear();
        }
        Ok(self.lease.is_some())
    }

    /// Seals one round; returns the number of rows. Any error drops the lease locally: the cached counters may be wrong
    /// then.
    pub async fn round(&mut self) -> Result<usize, SealError> {
        let Some(lease) = self.lease.clone() else { return Ok(0) };
        match self.seal(&lease).await {
            Ok(count) => Ok(count),
            Err(error) => {
                if matches!(error, StoreError::Fenced) {
                    self.platform.metrics.fenced.inc();
                }
                self.lease = None;
                self.heads.clear();
                self.looked_at_all = None;
                Err(error)
            }
        }
    }

    async fn seal(&mut self, lease: &Lease) -> Result<usize, SealError> {
        let store = self.platform.store.clone();
        let mut tx = store.begin().await?;
        // The fence comes first: it locks the lease's row, so that no other replica can take over during this round.
        tx.lease_extend(lease, self.platform.env.now()).await?;
        let whole = self.looked_at_all.is_none_or(|at| at.elapsed() >= EVERYTHING);
        let rows = tx.outbox_take_from(if whole { uuid::Uuid::nil() } else { self.from }, BATCH).await?;
        let newest = rows.last().map(|row| row.id);
        if rows.is_empty() {
            tx.commit().await?;
            self.look_on(whole, None);
            return Ok(0);
        }
        let parsed = rows.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let unknown: Vec<String> = names(&parsed).filter(|name| !self.heads.contains_key(name)).collect();
        if !unknown.is_empty() {
            for name in &unknown {
                self.heads.insert(name.clone(), (0, None));
            }
            for (name, sequence, hash) in tx.stream_heads(&unknown).await? {
                self.heads.insert(name, (sequence, hash));
            }
        }
        let batch = plan(&parsed, &mut self.heads);
        tx.seal(&batch).await?;
        tx.commit().await?;
        let count = parsed.len();
        self.look_on(whole, newest);
        self.platform.metrics.sealed.inc_by(count as u64);
        self.platform.tail.wake();
        if !batch.events.is_empty() {
            store.wake().await?;
        }
        Ok(count)
    }

    /// Sets the start of the next round. Ids are ordered by time, so new rows come after the newest one, or a little before
    /// it after a slow commit; a full scan, more than once a second, finds the rest.
    fn look_on(&mut self, whole: bool, newest: Option<uuid::Uuid>) {
        if let Some(newest) = newest {
            let millis = (newest.as_u128() >> 80).saturating_sub(MARGIN.as_millis());
            self.from = uuid::Uuid::from_u128(millis << 80);
        }
        if whole {
            self.looked_at_all = Some(std::time::Instant::now());
        }
    }

    /// Releases the lease, so that another replica need not wait for its expiry.
    pub async fn stop(&mut self) {
        if let Some(lease) = self.lease.take() {
            let _ = self.platform.store.lease_end(&lease).await;
        }
    }

    /// Seals until stopped.
    pub async fn run(mut self, mut stop: tokio::sync::watch::Receiver<bool>) {
        let mut last_work = std::time::Instant::now();
        while !*stop.borrow() {
            let pause = match self.step().await {
                Ok(0) if last_work.elapsed() < Duration::from_secs(1) => BUSY,
                Ok(0) => IDLE,
                Ok(count) => {
                    last_work = std::time::Instant::now();
                    patience(count)
                }
                Err(StoreError::Fenced) => IDLE,
                Err(error) => {
                    tracing::warn!(%error, "a sealing round failed; retrying");
                    IDLE
                }
            };
            if pause.is_zero() {
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.platform.sealer_wake.notified(), if pause >= BUSY => {}
                _ = stop.changed() => {}
            }
        }
        self.stop().await;
    }

    async fn step(&mut self) -> Result<usize, SealError> {
        if !self.take_lease().await? {
            return Ok(0);
        }
        // When idle a round is a single read; only extending the lease costs a commit.
        let whole = self.looked_at_all.is_none_or(|at| at.elapsed() >= EVERYTHING);
        let from = if whole { uuid::Uuid::nil() } else { self.from };
        if self.extended.elapsed() < EXTEND && !self.platform.store.outbox_has_rows_from(from).await? {
            self.look_on(whole, None);
            return Ok(0);
        }
        self.extended = std::time::Instant::now();
        self.round().await
    }
}

/// Returns the pause after a round. Under load it makes rounds fewer and fuller, at the same cost each; otherwise there is
/// none. The pauses stay below `BUSY` and are not interrupted.
fn patience(count: usize) -> Duration {
    match count {
        0..=4 => Duration::ZERO,
        5..=20 => Duration::from_millis(4),
        _ => Duration::from_millis(9),
    }
}

struct Parsed {
    row: OutboxRow,
    /// None for the engine's intermediate events: the command and the end of its operation have entries of their own.
    entry: Option<Entry>,
    events: Vec<Draft>,
}

fn parse(row: OutboxRow) -> Result<Parsed, SealError> {
    let entry = match row.entry.as_str() {
        "" => None,
        text => Some(serde_json::from_str(text).map_err(|_| StoreError::Corrupt("an unsealed entry"))?),
    };
    let events = serde_json::from_str(&row.events).map_err(|_| StoreError::Corrupt("unsealed events"))?;
    Ok(Parsed { row, entry, events })
}

fn scopes(event: &Draft) -> impl Iterator<Item = Scope> {
    let tenant = event.tenant_id;
    let project = tenant.zip(event.project_id);
    [
        Some(Scope::Platform),
        tenant.map(Scope::Tenant),
        project.map(|(tenant, project)| Scope::Project(tenant, project)),
    ]
    .into_iter()
    .flatten()
}

fn event_counter(scope: Scope) -> String {
    format!("event:{}", stream_name(scope))
}

/// Returns the counters that these rows need.
fn names(rows: &[Parsed]) -> impl Iterator<Item = String> {
    let mut names = std::collections::BTreeSet::new();
    for parsed in rows {
        if parsed.entry.is_some() {
            names.insert(format!("audit:{}", parsed.row.chain));
        }
        names.extend(parsed.events.iter().flat_map(|event| scopes(event).map(event_counter)));
    }
    names.into_iter()
}

/// Numbers and chains the rows in order, and advances the counters. Pure: the same rows and counters yield the same batch.
fn plan(rows: &[Parsed], heads: &mut Heads) -> SealBatch {
    let mut batch = SealBatch::default();
    let mut touched = std::collections::BTreeSet::new();
    let mut next = |heads: &mut Heads, name: String| {
        let head = heads.entry(name.clone()).or_default();
        head.0 += 1;
        touched.insert(name);
        head.0
    };
    for parsed in rows {
        if let Some(entry) = &parsed.entry {
            let counter = format!("audit:{}", parsed.row.chain);
            let sequence = next(heads, counter.clone());
            let head = heads.entry(counter).or_default();
            let previous_hash = head.1.clone().unwrap_or_else(|| GENESIS.to_owned());
            let hash = chain_hash(&previous_hash, sequence, &parsed.row.entry);
            head.1 = Some(hash.clone());
            let sealed = Sealed {
                chain: parsed.row.chain.clone(),
                sequence,
                previous_hash,
                hash,
                entry_text: parsed.row.entry.clone(),
            };
            batch.audit.push((
                sealed,
                entry.at,
                entry.actor.id.clone(),
                entry.action.clone(),
                entry.project_id.map(|id| id.uuid()),
            ));
        }
        for event in &parsed.events {
            let mut numbers =
                scopes(event).map(|scope| next(heads, event_counter(scope))).collect::<Vec<_>>().into_iter();
            batch.events.push(json!({
                "platform_sequence": numbers.next(), "tenant_sequence": numbers.next(), "project_sequence": numbers.next(),
                "id": event.id.uuid(), "type": event.event_type, "subject": event.subject,
                "at": event.at.as_microsecond(), "tenant_id": event.tenant_id.map(|id| id.uuid()),
                "project_id": event.project_id.map(|id| id.uuid()), "correlation_id": event.correlation_id,
                "actor_id": event.actor_id, "data": event.data,
                "instance_id": event.timeline.instance_id.map(|id| id.uuid()),
                "member_id": event.timeline.member_id.map(|id| id.uuid()),
            }));
        }
    }
    batch.heads = touched
        .into_iter()
        .map(|name| {
            let (sequence, hash) = heads.get(&name).cloned().unwrap_or_default();
            (name, sequence, hash)
        })
        .collect();
    batch
}
