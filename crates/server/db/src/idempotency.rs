//! What the door itself writes with every command: the key with its answer, and what the sealer will seal.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use muster_ids::{ProjectId, TenantId};
use muster_model::Scope;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::sql::{Sql, args, both, pair, statements};
use crate::{Result, Store, Tx};

statements! {
    // No conflict target: without its unique index the statement still runs, and the sabotage test sees the doubles.
    IDEMPOTENCY_INSERT = both(
        "INSERT INTO idempotency (key_hash, request_hash, status, body, tenant_id, project_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING");
    UNSEALED_INSERT = both("INSERT INTO unsealed (id, chain, entry, events) VALUES ($1, $2, $3, $4)");
    // Both inserts in one round trip: nothing is left unsealed when the key was taken. SQLite has no such statement and
    // needs none, having no round trips. `fuse` puts a command's own insert in between.
    DOOR_INSERT = pair(
        "WITH taken AS (
            INSERT INTO idempotency (key_hash, request_hash, status, body, tenant_id, project_id, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING 1)
         INSERT INTO unsealed (id, chain, entry, events) SELECT $8, $9, $10, $11 FROM taken",
        "SELECT 1");
    IDEMPOTENCY_GET = both(
        "SELECT request_hash, status, body, tenant_id, project_id FROM idempotency WHERE key_hash = $1 AND created_at > $2");
    IDEMPOTENCY_FORGET = both("DELETE FROM idempotency WHERE key_hash = $1 AND created_at <= $2");
}

/// The values that `DOOR_INSERT` takes; those of a fused insert follow.
const DOOR_VALUES: usize = 11;

fn key_hash(actor: &str, route: &str, key: &str) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for part in [actor, route, key] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hasher.finalize().to_vec()
}

/// A command's single insert and the door's rows as one statement, so that the commonest commands are one round trip and
/// commit by themselves. The effect happens only if the key was free. Made of two constants, once per statement, and kept
/// for the life of the process.
pub(crate) fn fuse(effect: &Sql) -> Option<&'static str> {
    static FUSED: Mutex<BTreeMap<&'static str, Option<&'static str>>> = Mutex::new(BTreeMap::new());
    let mut fused = FUSED.lock().expect("no holder of this lock can panic");
    *fused.entry(effect.name).or_insert_with(|| {
        let (head, values) = effect.pg.split_once("VALUES (")?;
        let values = values.trim_end().strip_suffix(')')?;
        let shifted = shift(values, DOOR_VALUES)?;
        let (key, unsealed) = DOOR_INSERT.pg.split_once("INSERT INTO unsealed")?;
        let key = key.trim_end();
        Some(String::leak(format!(
            "{key}, effect AS ({head} SELECT {shifted} FROM taken) INSERT INTO unsealed{unsealed}"
        )))
    })
}

/// The same for SQLite, as three statements in one text, with the effect's values first. The key's insert has no ON CONFLICT
/// here: that it fails is how a taken key is told, and it stops what follows.
pub(crate) fn fuse_sqlite(effect: &Sql) -> Option<&'static str> {
    static FUSED: Mutex<BTreeMap<&'static str, Option<&'static str>>> = Mutex::new(BTreeMap::new());
    let mut fused = FUSED.lock().expect("no holder of this lock can panic");
    *fused.entry(effect.name).or_insert_with(|| {
        let (_, values) = effect.sqlite.split_once("VALUES (")?;
        let used = values.trim_end().strip_suffix(')')?.split(',').count();
        let (key, key_values) = IDEMPOTENCY_INSERT.sqlite.split_once("VALUES (")?;
        let key_values = shift(key_values.split_once(')')?.0, used)?;
        let (unsealed, unsealed_values) = UNSEALED_INSERT.sqlite.split_once("VALUES (")?;
        let unsealed_values = shift(unsealed_values.trim_end().strip_suffix(')')?, used + 7)?;
        Some(String::leak(format!(
            "{}; {key} VALUES ({key_values}); {unsealed} VALUES ({unsealed_values})",
            effect.sqlite
        )))
    })
}

/// `$1, $2` as `$12, $13` for a distance of 11; nothing for a list that is more than placeholders.
fn shift(values: &str, by: usize) -> Option<String> {
    let shifted = values.split(',').map(|value| {
        let number: usize = value.trim().strip_prefix('$')?.parse().ok()?;
        Some(format!("${}", number + by))
    });
    Some(shifted.collect::<Option<Vec<_>>>()?.join(", "))
}

/// What the door writes beside the effect.
#[derive(Debug, Clone)]
pub struct Door {
    /// Who, as text.
    pub actor_id: String,
    /// Method and path.
    pub route: String,
    /// The caller's key; none for methods that repeat safely by `If-Match`.
    pub key: Option<String>,
    /// The keyed hash of the request.
    pub request_hash: [u8; 32],
    /// The answer's status.
    pub status: i64,
    /// The answer's body, without secrets.
    pub body: String,
    /// Where the effect is.
    pub scope: Scope,
    /// When.
    pub at: Timestamp,
    /// The unsealed row's id: it decides the order of sealing.
    pub unsealed_id: Uuid,
    /// The audit entry's text.
    pub entry: String,
    /// The events, as a JSON array.
    pub events: String,
}

/// A stored answer.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Of which request.
    pub request_hash: Vec<u8>,
    /// The status.
    pub status: i64,
    /// The body.
    pub body: String,
    /// Where the effect was: who may not see this place any more gets no replay.
    pub tenant_id: Option<TenantId>,
    /// The same.
    pub project_id: Option<ProjectId>,
}

impl Store {
    /// The stored answer for a key that is younger than `since`.
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
    /// Writes the door's rows: the last thing before `commit`, and on PostgreSQL perhaps already it. `false` means that the
    /// key was used before, and nothing of the transaction may stay: the caller rolls back and replays.
    pub async fn door_insert(&mut self, door: &Door) -> Result<bool> {
        let chain = door.scope.chain();
        let Some(key) = &door.key else {
            self.unsealed_insert(door.unsealed_id, &chain, &door.entry, &door.events).await?;
            return Ok(true);
        };
        let mut args = args![
            key_hash(&door.actor_id, &door.route, key),
            door.request_hash.to_vec(),
            door.status,
            &door.body,
            door.scope.tenant(),
            door.scope.project(),
            door.at
        ];
        if self.is_postgres() && !self.skips("UNSEALED_INSERT") {
            args.extend(args![door.unsealed_id, chain, &door.entry, &door.events]);
            return self.execute_door(&DOOR_INSERT, args).await;
        }
        if !self.is_postgres() && !self.skips("UNSEALED_INSERT") {
            let mut fused = args.clone();
            fused.extend(args![door.unsealed_id, &chain, &door.entry, &door.events]);
            if let Some(first) = self.execute_door_sqlite(&fused).await? {
                return Ok(first);
            }
        }
        if self.execute(&IDEMPOTENCY_INSERT, args).await? == 0 {
            return Ok(false);
        }
        self.unsealed_insert(door.unsealed_id, &chain, &door.entry, &door.events).await?;
        Ok(true)
    }

    /// Leaves an audit entry and events for the sealer.
    pub async fn unsealed_insert(&mut self, id: Uuid, chain: &str, entry: &str, events: &str) -> Result<()> {
        self.execute(&UNSEALED_INSERT, args![id, chain, entry, events]).await.map(drop)
    }

    /// Forgets a key whose day is over, so that it can be used again before the sweeper comes by.
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
