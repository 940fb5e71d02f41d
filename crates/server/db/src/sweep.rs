//! Retention: deletes rows that are past their retention period.

use jiff::Timestamp;

use crate::sql::{args, both, statements};
use crate::{Result, Tx};

statements! {
    SWEEP_IDEMPOTENCY = both("DELETE FROM idempotency WHERE created_at < $1");
    SWEEP_TOKENS = both("DELETE FROM tokens WHERE expires_at < $1 OR revoked_at < $1");
    SWEEP_DELIVERIES = both("DELETE FROM webhook_deliveries WHERE at < $1");
    // Streams and chains are pruned from their oldest end. The pruning position is stored beside the counter, so that a
    // reader can distinguish "pruned" from "never existed".
    SWEEP_EVENT_MARKS_PLATFORM = both(
        "UPDATE streams SET pruned_sequence = (SELECT MAX(platform_sequence) FROM events WHERE at < $1)
         WHERE name = 'event:platform' AND EXISTS (SELECT 1 FROM events WHERE at < $1)");
    SWEEP_EVENTS = both(
        "DELETE FROM events WHERE platform_sequence <=
            (SELECT pruned_sequence FROM streams WHERE name = 'event:platform')");
    SWEEP_EVENT_OLDEST = both(
        "SELECT tenant_id, project_id, MAX(tenant_sequence), MAX(project_sequence) FROM events
         WHERE platform_sequence <= (SELECT pruned_sequence FROM streams WHERE name = 'event:platform')
         GROUP BY tenant_id, project_id");
    SWEEP_STREAM_MARK = both("UPDATE streams SET pruned_sequence = $2, pruned_hash = $3 WHERE name = $1 AND pruned_sequence < $2");
    SWEEP_AUDIT_MARKS = both("SELECT chain, MAX(sequence) FROM audit_entries WHERE at < $1 GROUP BY chain");
    SWEEP_AUDIT_HASH = both("SELECT hash FROM audit_entries WHERE chain = $1 AND sequence = $2");
    SWEEP_AUDIT = both("DELETE FROM audit_entries WHERE chain = $1 AND sequence <= $2");
}

impl Tx {
    /// Deletes stored responses that are older than this.
    pub async fn sweep_idempotency(&mut self, before: Timestamp) -> Result<u64> {
        self.execute(&SWEEP_IDEMPOTENCY, args![before]).await
    }

    /// Deletes tokens that expired or were revoked before this.
    pub async fn sweep_tokens(&mut self, before: Timestamp) -> Result<u64> {
        self.execute(&SWEEP_TOKENS, args![before]).await
    }

    /// Deletes webhook delivery attempts that are older than this.
    pub async fn sweep_deliveries(&mut self, before: Timestamp) -> Result<u64> {
        self.execute(&SWEEP_DELIVERIES, args![before]).await
    }

    /// Deletes events that are older than this and records the pruning position of each stream.
    pub async fn sweep_events(&mut self, before: Timestamp) -> Result<u64> {
        self.execute(&SWEEP_EVENT_MARKS_PLATFORM, args![before]).await?;
        for row in self.fetch_all(&SWEEP_EVENT_OLDEST, args![]).await? {
            let tenant: Option<muster_ids::TenantId> = row.get(0)?;
            let project: Option<muster_ids::ProjectId> = row.get(1)?;
            let marks = [
                tenant.map(|id| id.to_string()).zip(row.get::<Option<i64>>(2)?),
                project.map(|id| id.to_string()).zip(row.get::<Option<i64>>(3)?),
            ];
            for (name, sequence) in marks.into_iter().flatten() {
                let args = args![format!("event:{name}"), sequence, None::<String>];
                self.execute(&SWEEP_STREAM_MARK, args).await?;
            }
        }
        self.execute(&SWEEP_EVENTS, args![]).await
    }

    /// Deletes audit entries that are older than this. Each chain keeps the hash that its oldest remaining entry builds on.
    pub async fn sweep_audit(&mut self, before: Timestamp) -> Result<u64> {
        let mut swept = 0;
        for row in self.fetch_all(&SWEEP_AUDIT_MARKS, args![before]).await? {
            let (chain, sequence): (String, i64) = (row.get(0)?, row.get(1)?);
            let rows = self.fetch_all(&SWEEP_AUDIT_HASH, args![&chain, sequence]).await?;
            let hash: Option<String> = rows.first().map(|row| row.get(0)).transpose()?;
            self.execute(&SWEEP_STREAM_MARK, args![format!("audit:{chain}"), sequence, hash]).await?;
            swept += self.execute(&SWEEP_AUDIT, args![&chain, sequence]).await?;
        }
        Ok(swept)
    }
}
