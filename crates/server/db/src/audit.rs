//! Sealed audit entries.

use muster_ids::ProjectId;
use muster_model::audit::{GENESIS, Head, Sealed};

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store};

statements! {
    AUDIT_LIST = both(
        "SELECT chain, sequence, previous_hash, hash, entry FROM audit_entries
         WHERE chain = $1 AND sequence > $2 AND ($3 OR action = $4) AND ($5 OR actor_id = $6) AND ($7 OR project_id = $8)
         ORDER BY sequence LIMIT $9");
    // Lengths are summed first, so that no more entries are read than are returned. $3 maximum rows, $4 maximum bytes (at least
    // one entry is returned).
    AUDIT_PORTION = both(
        "SELECT chain, sequence, previous_hash, hash, entry FROM audit_entries
         WHERE chain = $1 AND sequence > $2 AND sequence <= (
            SELECT MAX(sequence) FROM (
                SELECT sequence, SUM(bytes) OVER (ORDER BY sequence) - bytes AS bytes_before FROM (
                    SELECT sequence, OCTET_LENGTH(entry) AS bytes FROM audit_entries
                    WHERE chain = $1 AND sequence > $2 ORDER BY sequence LIMIT $3) AS found) AS summed
            WHERE bytes_before < $4) ORDER BY sequence");
    AUDIT_HEADS = both(
        "SELECT substr(name, 7), sequence, hash, pruned_sequence, pruned_hash FROM streams
         WHERE name >= 'audit:' AND name < 'audit;' ORDER BY name");
    AUDIT_HEAD = both("SELECT sequence, hash, pruned_sequence, pruned_hash FROM streams WHERE name = $1");
}

/// Filter for entries of a chain.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only entries after this number.
    pub after: i64,
    /// Only this action.
    pub action: Option<String>,
    /// Only this actor.
    pub actor: Option<String>,
    /// Only this project.
    pub project: Option<ProjectId>,
    /// Maximum number of entries.
    pub limit: i64,
}

fn sealed(row: &Row) -> Result<Sealed> {
    Ok(Sealed {
        chain: row.get(0)?,
        sequence: row.get(1)?,
        previous_hash: row.get(2)?,
        hash: row.get(3)?,
        entry_text: row.get(4)?,
    })
}

impl Store {
    /// Returns entries of a chain, in order.
    pub async fn audit_list(&self, chain: &str, filter: &AuditFilter) -> Result<Vec<Sealed>> {
        let args = args![
            chain,
            filter.after,
            filter.action.is_none(),
            filter.action.clone(),
            filter.actor.is_none(),
            filter.actor.clone(),
            filter.project.is_none(),
            filter.project,
            filter.limit
        ];
        self.fetch_all(&AUDIT_LIST, args).await?.iter().map(sealed).collect()
    }

    /// Returns the entries of a chain after a number, in order: as many as have so many bytes, and at least one.
    pub async fn audit_portion(
        &self,
        chain: &str,
        after: i64,
        limit: i64,
        bytes: i64,
    ) -> Result<Vec<Sealed>> {
        self.fetch_all(&AUDIT_PORTION, args![chain, after, limit, bytes]).await?.iter().map(sealed).collect()
    }

    /// Returns the heads of all chains.
    pub async fn audit_heads(&self) -> Result<Vec<Head>> {
        let rows = self.fetch_all(&AUDIT_HEADS, args![]).await?;
        let genesis = || GENESIS.to_owned();
        let read = |row: &Row| {
            Ok(Head {
                chain: row.get(0)?,
                sequence: row.get(1)?,
                hash: row.get::<Option<String>>(2)?.unwrap_or_else(genesis),
                pruned_sequence: row.get(3)?,
                pruned_hash: row.get::<Option<String>>(4)?.unwrap_or_else(genesis),
            })
        };
        rows.iter().map(read).collect()
    }

    /// Returns the head of a chain.
    pub async fn audit_head(&self, chain: &str) -> Result<Head> {
        let row = self.fetch_optional(&AUDIT_HEAD, args![format!("audit:{chain}")]).await?;
        let genesis = || GENESIS.to_owned();
        Ok(match row {
            Some(row) => Head {
                chain: chain.to_owned(),
                sequence: row.get(0)?,
                hash: row.get::<Option<String>>(1)?.unwrap_or_else(genesis),
                pruned_sequence: row.get(2)?,
                pruned_hash: row.get::<Option<String>>(3)?.unwrap_or_else(genesis),
            },
            None => Head {
                chain: chain.to_owned(),
                sequence: 0,
                hash: genesis(),
                pruned_sequence: 0,
                pruned_hash: genesis(),
            },
        })
    }
}
