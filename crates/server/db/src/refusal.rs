//! Refused commands: the first of a minute is recorded immediately, further ones in that minute are only counted.

use muster_model::audit::Entry;

use crate::sql::{args, both, statements};
use crate::{Result, Tx};

statements! {
    REFUSAL_COUNT = both(
        "INSERT INTO refusals (actor_id, action, code, minute, count, entry, chain) VALUES ($1, $2, $3, $4, 1, $5, $6)
         ON CONFLICT (actor_id, action, code, minute) DO UPDATE SET count = refusals.count + 1, entry = $5
         RETURNING count");
    REFUSAL_TAKE = both("DELETE FROM refusals WHERE minute < $1 RETURNING count, entry");
}

impl Tx {
    /// Counts a refusal; the first of its minute is also appended to the outbox.
    pub async fn refusal_count(&mut self, entry: &Entry, minute: i64, id: uuid::Uuid) -> Result<()> {
        let text = serde_json::to_string(entry).expect("an audit entry is JSON");
        let chain = entry.scope().chain();
        let code = entry.code.clone().unwrap_or_default();
        let args = args![&entry.actor.id, &entry.action, code, minute, &text, &chain];
        let rows = self.fetch_all(&REFUSAL_COUNT, args).await?;
        let count: i64 = rows.first().map(|row| row.get(0)).transpose()?.unwrap_or(1);
        if count == 1 { self.outbox_insert(id, &chain, &text, "[]").await } else { Ok(()) }
    }

    /// Takes the counts of past minutes: the count, and the last entry.
    pub async fn refusal_take(&mut self, before_minute: i64) -> Result<Vec<(i64, String)>> {
        let rows = self.fetch_all(&REFUSAL_TAKE, args![before_minute]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }
}
