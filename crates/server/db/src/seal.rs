//! The sealer's statements: take committed outbox rows, order, number and chain them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_model::audit::Sealed;
use parking_lot::Mutex;
use serde_json::Value as Json;
use uuid::Uuid;

use crate::sql::{Sql, Value, args, both, pair, statements};
use crate::{Result, Store, Tx};

statements! {
    OUTBOX_TAKE = both(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE id >= $2 ORDER BY id LIMIT $1)
         RETURNING id, chain, entry, events");
    // Uses the index: a plain EXISTS may scan the whole heap, including dead rows.
    OUTBOX_HAS_ROWS = both("SELECT id FROM outbox WHERE id >= $1 ORDER BY id LIMIT 1");
    OUTBOX_COUNT = both("SELECT COUNT(*) FROM outbox");
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
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[],
                              $8::text[], $9::uuid[])",
        "INSERT INTO audit_entries (chain, sequence, previous_hash, hash, entry, at, actor_id, action, project_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
    EVENT_INSERT = pair(
        "INSERT INTO events (platform_sequence, id, type, subject, at, tenant_id, tenant_sequence, project_id,
                             project_sequence, correlation_id, actor_id, data, instance_id, member_id)
         SELECT platform_sequence, id, type, subject, at, tenant_id, tenant_sequence, project_id, project_sequence,
                correlation_id, actor_id, data::jsonb, instance_id, member_id
         FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::uuid[], $7::bigint[],
                     $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::uuid[], $14::uuid[])
              AS r (platform_sequence, id, type, subject, at, tenant_id, tenant_sequence, project_id, project_sequence,
                    correlation_id, actor_id, data, instance_id, member_id)",
        "INSERT INTO events (platform_sequence, id, type, subject, at, tenant_id, tenant_sequence, project_id,
                             project_sequence, correlation_id, actor_id, data, instance_id, member_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)");
}

/// An outbox row.
#[derive(Debug, Clone)]
pub struct OutboxRow {
    /// Its id, which decides the order.
    pub id: Uuid,
    /// The audit chain.
    pub chain: String,
    /// The audit entry's text.
    pub entry: String,
    /// The events, as a JSON array of drafts.
    pub events: String,
}

/// The writes of one sealing round. Times are microseconds, ids plain UUIDs: a form that both databases read.
#[derive(Debug, Default)]
pub struct SealBatch {
    /// Audit entries with the values of their columns.
    pub audit: Vec<(Sealed, Timestamp, String, String, Option<Uuid>)>,
    /// Events as JSON objects keyed by column names.
    pub events: Vec<Json>,
    /// New values of the counters: name, sequence, hash.
    pub heads: Vec<(String, i64, Option<String>)>,
}

impl Store {
    /// Reports whether the outbox has any row from this id on.
    pub async fn outbox_has_rows_from(&self, from: Uuid) -> Result<bool> {
        Ok(self.fetch_optional(&OUTBOX_HAS_ROWS, args![from]).await?.is_some())
    }

    /// Returns the number of outbox rows.
    pub async fn outbox_count(&self) -> Result<i64> {
        match self.fetch_optional(&OUTBOX_COUNT, args![]).await? {
            Some(row) => row.get(0),
            None => Ok(0),
        }
    }
}

impl Tx {
    /// Takes outbox rows from this id on, in order. Rows taken before stay as dead entries at the front of the index until
    /// PostgreSQL vacuums, and a scan from the front would have to skip all of them.
    pub async fn outbox_take_from(&mut self, from: Uuid, limit: i64) -> Result<Vec<OutboxRow>> {
        let rows = self.fetch_all(&OUTBOX_TAKE, args![limit, from]).await?;
        let mut taken: Vec<OutboxRow> = rows
            .iter()
            .map(|row| {
                Ok(OutboxRow { id: row.get(0)?, chain: row.get(1)?, entry: row.get(2)?, events: row.get(3)? })
            })
            .collect::<Result<_>>()?;
        taken.sort_by_key(|row| row.id);
        Ok(taken)
    }

    /// Returns the values of the named counters.
    pub async fn stream_heads(&mut self, names: &[String]) -> Result<Vec<(String, i64, Option<String>)>> {
        let rows = self.fetch_all(&STREAM_HEADS, args![serde_json::json!(names)]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).collect()
    }

    /// Writes a sealing round. PostgreSQL takes the rows as column arrays, which need no parsing; SQLite takes them as lists
    /// of values, many rows per statement.
    pub async fn seal(&mut self, batch: &SealBatch) -> Result<()> {
        if self.is_postgres() {
            self.execute(&AUDIT_INSERT, audit_columns(batch)).await?;
            if !batch.events.is_empty() {
                self.execute(&EVENT_INSERT, event_columns(&batch.events)).await?;
            }
        } else {
            self.insert_rows(&AUDIT_INSERT, audit_rows(batch)).await?;
            self.insert_rows(&EVENT_INSERT, event_rows(&batch.events)).await?;
        }
        let heads: Vec<Json> = batch
            .heads
            .iter()
            .map(|(name, sequence, hash)| serde_json::json!({"name": name, "sequence": sequence, "hash": hash}))
            .collect();
        self.execute(&STREAM_UPSERT, args![Json::Array(heads)]).await.map(drop)
    }

    /// Inserts many rows with few statements: full groups first, the rest one by one.
    async fn insert_rows(&mut self, one: &Sql, mut rows: Vec<Vec<Value>>) -> Result<()> {
        while !rows.is_empty() {
            let group = if rows.len() >= GROUP { GROUP } else { 1 };
            let sql = if group == 1 { *one } else { grouped(one) };
            let values: Vec<Value> = rows.drain(..group).flatten().collect();
            self.execute(&sql, values).await?;
        }
        Ok(())
    }
}

/// Rows per statement on SQLite: enough to amortize its cost, few enough that a small round fills a group.
const GROUP: usize = 8;

/// Turns an insert of one row into an insert of `GROUP` rows; built once per statement and kept for the life of the process.
fn grouped(one: &Sql) -> Sql {
    static GROUPED: Mutex<BTreeMap<&'static str, &'static str>> = Mutex::new(BTreeMap::new());
    let mut known = GROUPED.lock();
    let text = *known.entry(one.name).or_insert_with(|| {
        let (head, values) = one.sqlite.split_once("VALUES (").unwrap_or((one.sqlite, ""));
        let columns = values.split(',').count();
        let row = |at: usize| {
            let places: Vec<String> =
                (1..=columns).map(|column| format!("${}", at * columns + column)).collect();
            format!("({})", places.join(", "))
        };
        let rows: Vec<String> = (0..GROUP).map(row).collect();
        String::leak(format!("{head} VALUES {}", rows.join(", ")))
    });
    Sql { name: one.name, pg: text, sqlite: text }
}

fn audit_rows(batch: &SealBatch) -> Vec<Vec<Value>> {
    let row = |(sealed, at, actor, action, project): &(Sealed, Timestamp, String, String, Option<Uuid>)| {
        args![
            &sealed.chain,
            sealed.sequence,
            &sealed.previous_hash,
            &sealed.hash,
            &sealed.entry_text,
            *at,
            actor,
            action,
            *project
        ]
    };
    batch.audit.iter().map(row).collect()
}

fn event_rows(events: &[Json]) -> Vec<Vec<Value>> {
    let text = |event: &Json, name: &str| event[name].as_str().map(str::to_owned);
    let uuid = |event: &Json, name: &str| event[name].as_str().and_then(|text| text.parse::<Uuid>().ok());
    let row = |event: &Json| {
        args![
            event["platform_sequence"].as_i64(),
            uuid(event, "id"),
            text(event, "type"),
            text(event, "subject"),
            Timestamp::from_microsecond(event["at"].as_i64().unwrap_or(0)).unwrap_or_default(),
            uuid(event, "tenant_id"),
            event["tenant_sequence"].as_i64(),
            uuid(event, "project_id"),
            event["project_sequence"].as_i64(),
            text(event, "correlation_id"),
            text(event, "actor_id"),
            event["data"].clone(),
            uuid(event, "instance_id"),
            uuid(event, "member_id")
        ]
    };
    events.iter().map(row).collect()
}

fn audit_columns(batch: &SealBatch) -> Vec<Value> {
    let rows = &batch.audit;
    let text = |column: fn(&Sealed) -> &String| {
        Value::Texts(rows.iter().map(|row| Some(column(&row.0).clone())).collect())
    };
    vec![
        text(|sealed| &sealed.chain),
        Value::I64s(rows.iter().map(|row| Some(row.0.sequence)).collect()),
        text(|sealed| &sealed.previous_hash),
        text(|sealed| &sealed.hash),
        text(|sealed| &sealed.entry_text),
        Value::Times(rows.iter().map(|row| row.1).collect()),
        Value::Texts(rows.iter().map(|row| Some(row.2.clone())).collect()),
        Value::Texts(rows.iter().map(|row| Some(row.3.clone())).collect()),
        Value::Uuids(rows.iter().map(|row| row.4).collect()),
    ]
}

fn event_columns(events: &[Json]) -> Vec<Value> {
    let text = |name: &str| {
        Value::Texts(events.iter().map(|event| event[name].as_str().map(str::to_owned)).collect())
    };
    let number = |name: &str| Value::I64s(events.iter().map(|event| event[name].as_i64()).collect());
    let uuid = |name: &str| {
        Value::Uuids(
            events.iter().map(|event| event[name].as_str().and_then(|text| text.parse().ok())).collect(),
        )
    };
    let at =
        |event: &Json| Timestamp::from_microsecond(event["at"].as_i64().unwrap_or(0)).unwrap_or_default();
    vec![
        number("platform_sequence"),
        uuid("id"),
        text("type"),
        text("subject"),
        Value::Times(events.iter().map(at).collect()),
        uuid("tenant_id"),
        number("tenant_sequence"),
        uuid("project_id"),
        number("project_sequence"),
        text("correlation_id"),
        text("actor_id"),
        Value::Texts(events.iter().map(|event| Some(event["data"].to_string())).collect()),
        uuid("instance_id"),
        uuid("member_id"),
    ]
}
