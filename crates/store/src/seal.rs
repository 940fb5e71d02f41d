//! The sealer's statements: take what is committed, put it in order, number it, chain it.

use jiff::Timestamp;
use muster_model::audit::Sealed;
use serde_json::Value as Json;
use uuid::Uuid;

use crate::sql::{args, both, pair, statements};
use crate::{Result, Store, Tx};

statements! {
    UNSEALED_TAKE = both(
        "DELETE FROM unsealed WHERE id IN (SELECT id FROM unsealed ORDER BY id LIMIT $1)
         RETURNING id, chain, entry, events");
    UNSEALED_ANY = both("SELECT EXISTS (SELECT 1 FROM unsealed)");
    UNSEALED_COUNT = both("SELECT COUNT(*) FROM unsealed");
    STREAM_HEADS = pair(
        "SELECT name, sequence, hash FROM streams WHERE name IN (SELECT jsonb_array_elements_text($1))",
        "SELECT name, sequence, hash FROM streams WHERE name IN (SELECT value FROM json_each($1))");
    STREAM_UPSERT = pair(
        "INSERT INTO streams (name, sequence, hash, pruned_sequence)
         SELECT name, sequence, hash, 0 FROM jsonb_to_recordset($1) AS r (name TEXT, sequence BIGINT, hash TEXT)
         ON CONFLICT (name) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash",
        "INSERT INTO streams (name, sequence, hash, pruned_sequence)
         SELECT value ->> 'name', value ->> 'sequence', value ->> 'hash', 0 FROM json_each($1) WHERE true
         ON CONFLICT (name) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash");
    AUDIT_INSERT = pair(
        "INSERT INTO audit_entries (chain, sequence, previous_hash, hash, entry, at, actor_id, action, project_id)
         SELECT chain, sequence, previous_hash, hash, entry, to_timestamp(0) + make_interval(secs => at / 1000000.0),
                actor_id, action, project_id
         FROM jsonb_to_recordset($1) AS r (chain TEXT, sequence BIGINT, previous_hash TEXT, hash TEXT, entry TEXT,
                                           at BIGINT, actor_id TEXT, action TEXT, project_id UUID)",
        "INSERT INTO audit_entries (chain, sequence, previous_hash, hash, entry, at, actor_id, action, project_id)
         SELECT value ->> 'chain', value ->> 'sequence', value ->> 'previous_hash', value ->> 'hash', value ->> 'entry',
                value ->> 'at', value ->> 'actor_id', value ->> 'action', value ->> 'project_id' FROM json_each($1)");
    EVENT_INSERT = pair(
        "INSERT INTO events (platform_sequence, id, type, subject, at, tenant_id, tenant_sequence, project_id,
                             project_sequence, correlation_id, actor_id, data)
         SELECT platform_sequence, id, type, subject, to_timestamp(0) + make_interval(secs => at / 1000000.0), tenant_id,
                tenant_sequence, project_id, project_sequence, correlation_id, actor_id, COALESCE(data, 'null')
         FROM jsonb_to_recordset($1) AS r (platform_sequence BIGINT, id UUID, type TEXT, subject TEXT, at BIGINT,
              tenant_id UUID, tenant_sequence BIGINT, project_id UUID, project_sequence BIGINT, correlation_id TEXT,
              actor_id TEXT, data JSONB)",
        "INSERT INTO events (platform_sequence, id, type, subject, at, tenant_id, tenant_sequence, project_id,
                             project_sequence, correlation_id, actor_id, data)
         SELECT value ->> 'platform_sequence', value ->> 'id', value ->> 'type', value ->> 'subject', value ->> 'at',
                value ->> 'tenant_id', value ->> 'tenant_sequence', value ->> 'project_id', value ->> 'project_sequence',
                value ->> 'correlation_id', value ->> 'actor_id', value -> 'data' FROM json_each($1)");
}

/// A row that waits for the sealer.
#[derive(Debug, Clone)]
pub struct UnsealedRow {
    /// Decides the order.
    pub id: Uuid,
    /// The audit chain.
    pub chain: String,
    /// The audit entry's text.
    pub entry: String,
    /// The events, as a JSON array of drafts.
    pub events: String,
}

/// What one round of sealing writes. Times are microseconds, ids plain UUIDs: the form both databases read.
#[derive(Debug, Default)]
pub struct SealBatch {
    /// Audit entries with what the columns need.
    pub audit: Vec<(Sealed, Timestamp, String, String, Option<Uuid>)>,
    /// Events as JSON objects with the columns' names.
    pub events: Vec<Json>,
    /// The counters' new values: name, sequence, hash.
    pub heads: Vec<(String, i64, Option<String>)>,
}

impl Store {
    /// Whether any row waits.
    pub async fn unsealed_any(&self) -> Result<bool> {
        match self.fetch_optional(&UNSEALED_ANY, args![]).await? {
            Some(row) => row.get(0),
            None => Ok(false),
        }
    }

    /// How many rows wait.
    pub async fn unsealed_count(&self) -> Result<i64> {
        match self.fetch_optional(&UNSEALED_COUNT, args![]).await? {
            Some(row) => row.get(0),
            None => Ok(0),
        }
    }
}

impl Tx {
    /// Takes rows that wait, in order.
    pub async fn unsealed_take(&mut self, limit: i64) -> Result<Vec<UnsealedRow>> {
        let rows = self.fetch_all(&UNSEALED_TAKE, args![limit]).await?;
        let mut taken: Vec<UnsealedRow> = rows
            .iter()
            .map(|row| {
                Ok(UnsealedRow {
                    id: row.get(0)?,
                    chain: row.get(1)?,
                    entry: row.get(2)?,
                    events: row.get(3)?,
                })
            })
            .collect::<Result<_>>()?;
        taken.sort_by_key(|row| row.id);
        Ok(taken)
    }

    /// Where the named counters stand.
    pub async fn stream_heads(&mut self, names: &[String]) -> Result<Vec<(String, i64, Option<String>)>> {
        let rows = self.fetch_all(&STREAM_HEADS, args![serde_json::json!(names)]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).collect()
    }

    /// Writes a round of sealing.
    pub async fn seal(&mut self, batch: &SealBatch) -> Result<()> {
        let audit: Vec<Json> = batch
            .audit
            .iter()
            .map(|(sealed, at, actor, action, project)| {
                serde_json::json!({
                    "chain": sealed.chain, "sequence": sealed.sequence, "previous_hash": sealed.previous_hash,
                    "hash": sealed.hash, "entry": sealed.entry_text, "at": at.as_microsecond(), "actor_id": actor,
                    "action": action, "project_id": project,
                })
            })
            .collect();
        let heads: Vec<Json> = batch
            .heads
            .iter()
            .map(|(name, sequence, hash)| serde_json::json!({"name": name, "sequence": sequence, "hash": hash}))
            .collect();
        self.execute(&AUDIT_INSERT, args![Json::Array(audit)]).await?;
        if !batch.events.is_empty() {
            self.execute(&EVENT_INSERT, args![Json::Array(batch.events.clone())]).await?;
        }
        self.execute(&STREAM_UPSERT, args![Json::Array(heads)]).await.map(drop)
    }
}
