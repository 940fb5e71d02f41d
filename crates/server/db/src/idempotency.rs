//! The command record, written with every command: the idempotency key with its response, and the outbox row for the sealer.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_ids::{Env, ProjectId, TenantId};
use muster_model::Scope;
use muster_model::event::{Draft, NewEvent};
use muster_model::origin::{Audited, Origin};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::sql::{Sql, args, both, pair, statements};
use crate::{Result, Store, Tx};

statements! {
    // No conflict target: without its unique index the statement still runs, and the sabotage test finds the duplicates.
    IDEMPOTENCY_INSERT = both(
        "INSERT INTO idempotency (key_hash, request_hash, status, body, tenant_id, project_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING");
    OUTBOX_APPEND = both("INSERT INTO outbox (id, chain, entry, events) VALUES ($1, $2, $3, $4)");
    // Both inserts in one round trip: nothing is appended to the outbox if the key was taken. SQLite has no such statement
    // and no round trips to save. `fuse` puts a command's own insert in between.
    RECORD_COMMAND = pair(
        "WITH taken AS (
            INSERT INTO idempotency (key_hash, request_hash, status, body, tenant_id, project_id, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING 1)
         INSERT INTO outbox (id, chain, entry, events) SELECT $8, $9, $10, $11 FROM taken",
        "SELECT 1");
    IDEMPOTENCY_GET = both(
        "SELECT request_hash, status, body, tenant_id, project_id FROM idempotency WHERE key_hash = $1 AND created_at > $2");
    IDEMPOTENCY_FORGET = both("DELETE FROM idempotency WHERE key_hash = $1 AND created_at <= $2");
}

/// The number of values of `RECORD_COMMAND`; those of a fused insert follow.
const RECORD_VALUES: usize = 11;

fn key_hash(actor: &str, route: &str, key: &str) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for part in [actor, route, key] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hasher.finalize().to_vec()
}

/// Fuses a command's single insert and the command record into one statement, so that the most common commands take one
/// round trip and commit on their own. The effect happens only if the key was free. Built from two constants once per
/// statement and kept for the life of the process.
pub(crate) fn fuse(effect: &Sql) -> Option<&'static str> {
    static FUSED: Mutex<BTreeMap<&'static str, Option<&'static str>>> = Mutex::new(BTreeMap::new());
    let mut fused = FUSED.lock();
    *fused.entry(effect.name).or_insert_with(|| {
        let (head, values) = effect.pg.split_once("VALUES (")?;
        let values = values.trim_end().strip_suffix(')')?;
        let shifted = shift(values, RECORD_VALUES)?;
        let (key, outbox) = RECORD_COMMAND.pg.split_once("INSERT INTO outbox")?;
        let key = key.trim_end();
        Some(String::leak(format!(
            "{key}, effect AS ({head} SELECT {shifted} FROM taken) INSERT INTO outbox{outbox}"
        )))
    })
}

/// Does the same for SQLite, as three statements in one text, with the effect's values first. The key's insert has no ON
/// CONFLICT here: its failure reports a taken key and stops the statements after it.
pub(crate) fn fuse_sqlite(effect: &Sql) -> Option<&'static str> {
    static FUSED: Mutex<BTreeMap<&'static str, Option<&'static str>>> = Mutex::new(BTreeMap::new());
    let mut fused = FUSED.lock();
    *fused.entry(effect.name).or_insert_with(|| {
        let (_, values) = effect.sqlite.split_once("VALUES (")?;
        let used = values.trim_end().strip_suffix(')')?.split(',').count();
        let (key, key_values) = IDEMPOTENCY_INSERT.sqlite.split_once("VALUES (")?;
        let key_values = shift(key_values.split_once(')')?.0, used)?;
        let (outbox, outbox_values) = OUTBOX_APPEND.sqlite.split_once("VALUES (")?;
        let outbox_values = shift(outbox_values.trim_end().strip_suffix(')')?, used + 7)?;
        Some(String::leak(format!(
            "{}; {key} VALUES ({key_values}); {outbox} VALUES ({outbox_values})",
            effect.sqlite
        )))
    })
}

/// Renumbers placeholders: `$1, $2` becomes `$12, $13` with `by` 11. Returns `None` if the list contains anything else.
fn shift(values: &str, by: usize) -> Option<String> {
    let shifted = values.split(',').map(|value| {
        let number: usize = value.trim().strip_prefix('$')?.parse().ok()?;
        Some(format!("${}", number + by))
    });
    Some(shifted.collect::<Option<Vec<_>>>()?.join(", "))
}

/// The command record, written beside the effect.
#[derive(Debug, Clone)]
pub struct CommandRecord {
    /// The actor, as text.
    pub actor_id: String,
    /// Method and path.
    pub route: String,
    /// The caller's key; absent for methods that are safe to retry with `If-Match`.
    pub key: Option<String>,
    /// Keyed hash of the request.
    pub request_hash: [u8; 32],
    /// Status of the response.
    pub status: i64,
    /// Body of the response, without secrets.
    pub body: String,
    /// Scope of the effect.
    pub scope: Scope,
    /// Time of the command.
    pub at: Timestamp,
    /// Id of the outbox row, which decides the order of sealing.
    pub outbox_id: Uuid,
    /// The audit entry's text.
    pub entry: String,
    /// The events, as a JSON array.
    pub events: String,
}

/// A stored response.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Hash of the request it belongs to.
    pub request_hash: Vec<u8>,
    /// The status.
    pub status: i64,
    /// The body.
    pub body: String,
    /// Tenant of the effect; a caller without access to it any more gets no replay.
    pub tenant_id: Option<TenantId>,
    /// Project of the effect, with the same rule.
    pub project_id: Option<ProjectId>,
}

impl Store {
    /// Returns the stored response for a key that is younger than `since`.
    pub async fn replay_lookup(
        &self,
        actor: &str,
        route: &str,
        key: &str,
        since: Timestamp,
    ) -> Result<Option<Replay>> {
        let row = self.fetch_optional(&IDEMPOTENCY_GET, args![key_hash(actor, route, key), since]).await?;
        row.as_ref()
            .map(|row| {
                Ok(Replay {
                    request_hash: row.get(0)?,
                    status: row.get(1)?,
                    body: row.get(2)?,
                    tenant_id: row.get(3)?,
                    project_id: row.get(4)?,
                })
            })
            .transpose()
    }
}

impl Tx {
    /// Writes the command record: the last step before `commit`, and on PostgreSQL possibly the commit itself. Returns
    /// `false` if the key was used before; the caller then rolls back and replays the stored response.
    pub async fn record_command(&mut self, record: &CommandRecord) -> Result<bool> {
        let chain = record.scope.chain();
        let Some(key) = &record.key else {
            self.outbox_insert(record.outbox_id, &chain, &record.entry, &record.events).await?;
            return Ok(true);
        };
        let mut args = args![
            key_hash(&record.actor_id, &record.route, key),
            record.request_hash.to_vec(),
            record.status,
            &record.body,
            record.scope.tenant(),
            record.scope.project(),
            record.at
        ];
        if self.is_postgres() && !self.skips("OUTBOX_APPEND") {
            args.extend(args![record.outbox_id, chain, &record.entry, &record.events]);
            return self.execute_command(&RECORD_COMMAND, args).await;
        }
        if !self.is_postgres() && !self.skips("OUTBOX_APPEND") {
            let mut fused = args.clone();
            fused.extend(args![record.outbox_id, &chain, &record.entry, &record.events]);
            if let Some(first) = self.execute_command_sqlite(&fused).await? {
                return Ok(first);
            }
        }
        if self.execute(&IDEMPOTENCY_INSERT, args).await? == 0 {
            return Ok(false);
        }
        self.outbox_insert(record.outbox_id, &chain, &record.entry, &record.events).await?;
        Ok(true)
    }

    /// Appends events, and an audit entry if there is one, to the outbox; the caller wakes the sealer after the commit. Does nothing
    /// without either.
    pub async fn outbox_append(
        &mut self,
        env: &Env,
        origin: &Origin,
        audited: Option<Audited>,
        events: Vec<NewEvent>,
    ) -> Result<()> {
        if audited.is_none() && events.is_empty() {
            return Ok(());
        }
        let entry = audited.map(|audited| origin.entry(env, audited));
        let entry = entry.map(|entry| serde_json::to_string(&entry).expect("an audit entry is JSON"));
        let events: Vec<Draft> = events.into_iter().map(|event| origin.draft(env, event)).collect();
        let events = serde_json::to_string(&events).expect("events are JSON");
        self.outbox_insert(env.uuid(), &origin.scope.chain(), &entry.unwrap_or_default(), &events).await
    }

    /// Inserts a row of the outbox as it is.
    pub async fn outbox_insert(&mut self, id: Uuid, chain: &str, entry: &str, events: &str) -> Result<()> {
        self.execute(&OUTBOX_APPEND, args![id, chain, entry, events]).await.map(drop)
    }

    /// Deletes an expired key, so that it can be used again before the sweeper runs.
    pub async fn idempotency_forget(
        &mut self,
        actor: &str,
        route: &str,
        key: &str,
        until: Timestamp,
    ) -> Result<()> {
        self.execute(&IDEMPOTENCY_FORGET, args![key_hash(actor, route, key), until]).await.map(drop)
    }
}
