//! What the door itself writes with every command: the key with its answer, and what the sealer will seal.

use jiff::Timestamp;
use muster_ids::{ProjectId, TenantId};
use muster_model::Scope;
use uuid::Uuid;

use crate::sql::{args, both, pair, statements};
use crate::{Result, Store, Tx};

statements! {
    // No conflict target: without its unique index the statement still runs, and the sabotage test sees the doubles.
    IDEMPOTENCY_INSERT = both(
        "INSERT INTO idempotency (actor_id, route, key, request_hash, status, body, tenant_id, project_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING");
    UNSEALED_INSERT = both("INSERT INTO unsealed (id, chain, entry, events) VALUES ($1, $2, $3, $4)");
    // Both inserts in one round trip: nothing is left unsealed when the key was taken. SQLite has no such statement and
    // needs none, having no round trips.
    DOOR_INSERT = pair(
        "WITH taken AS (
            INSERT INTO idempotency (actor_id, route, key, request_hash, status, body, tenant_id, project_id, created_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING 1)
         INSERT INTO unsealed (id, chain, entry, events) SELECT $10, $11, $12, $13 FROM taken",
        "SELECT 1");
    IDEMPOTENCY_GET = both(
        "SELECT request_hash, status, body, tenant_id, project_id FROM idempotency
         WHERE actor_id = $1 AND route = $2 AND key = $3 AND created_at > $4");
    IDEMPOTENCY_FORGET = both("DELETE FROM idempotency WHERE actor_id = $1 AND route = $2 AND key = $3 AND created_at <= $4");
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
        let row = self.fetch_optional(&IDEMPOTENCY_GET, args![actor, route, key, since]).await?;
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
    /// Writes the door's rows. `false` means that the key was used before: the caller must roll back and replay.
    pub async fn door_insert(&mut self, door: &Door) -> Result<bool> {
        let chain = door.scope.chain();
        let Some(key) = &door.key else {
            self.unsealed_insert(door.unsealed_id, &chain, &door.entry, &door.events).await?;
            return Ok(true);
        };
        let mut args = args![
            &door.actor_id,
            &door.route,
            key,
            door.request_hash.to_vec(),
            door.status,
            &door.body,
            door.scope.tenant(),
            door.scope.project(),
            door.at
        ];
        if self.is_postgres() && !self.skips("UNSEALED_INSERT") {
            args.extend(args![door.unsealed_id, chain, &door.entry, &door.events]);
            return Ok(self.execute(&DOOR_INSERT, args).await? == 1);
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
        self.execute(&IDEMPOTENCY_FORGET, args![actor, route, key, until]).await.map(drop)
    }
}
