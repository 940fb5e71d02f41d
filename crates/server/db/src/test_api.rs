//! Functions that only tests call, behind the feature `test-api`: arbitrary SQL, the schema as text, every statement, injected
//! faults, measured transactions, and short forms of production functions. A release build has none of them.
//!
//! Tests of other crates need them too, so `#[cfg(test)]` would not do. The crate `muster-testkit` enables the feature.

use sqlx::{Executor as _, SqlSafeStr as _};
use uuid::Uuid;

use crate::fault::Faults;
use crate::idempotency::fuse;
use crate::meter::Meter;
use crate::seal::OutboxRow;
use crate::{Backend, Joining, Result, Sql, Store, Tx};
use crate::{
    adapter, adapter_step, allocation, app, app_version, artifact, audit, cell, enrolment, entitlement,
    event, idempotency, instance, instance_history, key, lease, manifest, member, network, node, observation,
    operation, presence, project, quota, refusal, replica, repository, role_binding, runtime_secret, seal,
    sealing_key, secret, service_account, slot, ssh_key, stream, sweep, task, tenant, token, user, webhook,
    witness,
};

impl Sql {
    /// Reports whether the two texts differ.
    pub fn is_pair(&self) -> bool {
        self.pg != self.sqlite
    }
}

impl Store {
    /// Returns the fault injection handle for tests.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the meter of transaction durations.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Executes a single statement directly, for tests that break things on purpose.
    pub async fn sabotage(&self, statement: &'static str) -> Result<()> {
        match &self.backend {
            Backend::Pg(pool) => {
                sqlx::raw_sql(statement).execute(pool).await?;
            }
            Backend::Sqlite { writer, .. } => {
                let mut tx = writer.begin().await?;
                sqlx::raw_sql(statement).execute(tx.connection()?).await?;
                tx.commit().await?;
            }
        }
        Ok(())
    }

    /// Prepares a statement without running it. Tests use it to verify that each statement is valid on both databases.
    pub async fn prepare(&self, sql: &Sql) -> Result<()> {
        match &self.backend {
            Backend::Pg(pool) => pool.prepare(sql.pg.into_sql_str()).await.map(drop)?,
            Backend::Sqlite { read, .. } => read.prepare(sql.sqlite.into_sql_str()).await.map(drop)?,
        }
        Ok(())
    }

    /// Returns the schema as lines of text, identical for both databases if the schemas are.
    pub async fn describe_schema(&self) -> Result<Vec<String>> {
        const PG: &str = "SELECT c.table_name || '.' || c.column_name || ' ' || CASE c.data_type \
             WHEN 'uuid' THEN 'text' WHEN 'jsonb' THEN 'text' WHEN 'timestamp with time zone' THEN 'integer' \
             WHEN 'bigint' THEN 'integer' WHEN 'boolean' THEN 'integer' WHEN 'bytea' THEN 'blob' ELSE c.data_type END \
             || CASE c.is_nullable WHEN 'NO' THEN ' not null' ELSE '' END \
             FROM information_schema.columns c WHERE c.table_schema = 'public' AND c.table_name <> '_sqlx_migrations' \
             ORDER BY 1";
        const LITE: &str = "SELECT m.name || '.' || c.name || ' ' || lower(c.type) || \
             CASE c.\"notnull\" WHEN 1 THEN ' not null' ELSE '' END \
             FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table' \
             AND m.name NOT LIKE 'sqlite%' AND m.name <> '_sqlx_migrations' ORDER BY 1";
        const PG_INDEX: &str = "SELECT CASE i.indisunique WHEN true THEN 'unique ' ELSE 'index ' END || t.relname || ' (' || \
             (SELECT string_agg(a.attname, ', ' ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY AS k(attnum, n) \
              JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum) || ')' || \
             CASE WHEN i.indpred IS NULL THEN '' ELSE ' partial' END \
             FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace \
             WHERE n.nspname = 'public' AND t.relname <> '_sqlx_migrations' ORDER BY 1";
        // SQLite keeps an INTEGER primary key in the table itself, with no index to list.
        const LITE_INDEX: &str = "SELECT CASE l.\"unique\" WHEN 1 THEN 'unique ' ELSE 'index ' END || m.name || ' (' || \
             (SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_index_info(l.name) ORDER BY seqno)) || ')' || \
             CASE l.partial WHEN 1 THEN ' partial' ELSE '' END \
             FROM sqlite_master m JOIN pragma_index_list(m.name) l WHERE m.type = 'table' \
             AND m.name <> '_sqlx_migrations' \
             UNION ALL SELECT 'unique ' || m.name || ' (' || c.name || ')' \
             FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.pk = 1 \
             AND m.name <> '_sqlx_migrations' AND m.name NOT LIKE 'sqlite%' \
             AND NOT EXISTS (SELECT 1 FROM pragma_index_list(m.name) l WHERE l.origin = 'pk') ORDER BY 1";
        let (mut columns, indexes): (Vec<String>, Vec<String>) = match &self.backend {
            Backend::Pg(pool) => (
                sqlx::query_scalar(PG).fetch_all(pool).await?,
                sqlx::query_scalar(PG_INDEX).fetch_all(pool).await?,
            ),
            Backend::Sqlite { read, .. } => (
                sqlx::query_scalar(LITE).fetch_all(read).await?,
                sqlx::query_scalar(LITE_INDEX).fetch_all(read).await?,
            ),
        };
        columns.extend(indexes);
        columns.sort();
        Ok(columns)
    }

    /// Reports whether the outbox has any row.
    pub async fn outbox_has_rows(&self) -> Result<bool> {
        self.outbox_has_rows_from(Uuid::nil()).await
    }
}

impl Tx {
    /// Adds a node that has no certificate yet.
    pub async fn node_join(&mut self, joining: &Joining) -> Result<()> {
        self.node_join_with(joining, None).await
    }

    /// Takes outbox rows, in order.
    pub async fn outbox_take(&mut self, limit: i64) -> Result<Vec<OutboxRow>> {
        self.outbox_take_from(Uuid::nil(), limit).await
    }
}

/// Returns every statement of the store, including the fused form of every insert.
pub fn statements() -> Vec<Sql> {
    let mut all: Vec<Sql> = [
        adapter::ALL,
        adapter_step::ALL,
        allocation::ALL,
        app::ALL,
        app_version::ALL,
        artifact::ALL,
        audit::ALL,
        cell::ALL,
        enrolment::ALL,
        entitlement::ALL,
        event::ALL,
        idempotency::ALL,
        instance::ALL,
        instance_history::ALL,
        key::ALL,
        lease::ALL,
        manifest::ALL,
        member::ALL,
        network::ALL,
        node::ALL,
        observation::ALL,
        operation::ALL,
        presence::ALL,
        project::ALL,
        quota::ALL,
        refusal::ALL,
        replica::ALL,
        repository::ALL,
        role_binding::ALL,
        runtime_secret::ALL,
        seal::ALL,
        sealing_key::ALL,
        secret::ALL,
        service_account::ALL,
        slot::ALL,
        ssh_key::ALL,
        stream::ALL,
        sweep::ALL,
        task::ALL,
        tenant::ALL,
        token::ALL,
        user::ALL,
        webhook::ALL,
        witness::ALL,
    ]
    .concat();
    all.extend(crate::record::statements());
    let fused: Vec<Sql> = all
        .iter()
        .filter(|sql| sql.name.ends_with("_INSERT") && sql.name != "OUTBOX_APPEND")
        .filter_map(|sql| {
            let pg = fuse(sql)?;
            Some(Sql {
                name: String::leak(format!("RECORD_COMMAND_WITH_{}", sql.name)),
                pg,
                sqlite: "SELECT 1",
            })
        })
        .collect();
    all.extend(fused);
    all
}
