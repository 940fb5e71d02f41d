//! The keys that seal secrets, each wrapped by a root key.

use jiff::Timestamp;

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    SEALING_KEY_INSERT = both(
        "INSERT INTO sealing_keys (owner, key_version, root_key_id, wrapped, created_at) VALUES ($1, $2, $3, $4, $5)");
    SEALING_KEY_GET = both(
        "SELECT owner, key_version, root_key_id, wrapped FROM sealing_keys WHERE owner = $1 AND key_version = $2");
    SEALING_KEY_NEWEST = both(
        "SELECT owner, key_version, root_key_id, wrapped FROM sealing_keys WHERE owner = $1
         ORDER BY key_version DESC LIMIT 1");
    SEALING_KEY_UNDER_OTHER = both(
        "SELECT owner, key_version, root_key_id, wrapped FROM sealing_keys WHERE root_key_id <> $1
         ORDER BY owner, key_version LIMIT $2");
    SEALING_KEY_UNDER = both("SELECT COUNT(*) FROM sealing_keys WHERE root_key_id = $1");
    SEALING_KEY_REWRAP = both(
        "UPDATE sealing_keys SET root_key_id = $3, wrapped = $4 WHERE owner = $1 AND key_version = $2 AND root_key_id = $5");
    SEALING_KEY_SUPERSEDED = both(
        "SELECT owner, MAX(key_version) FROM sealing_keys GROUP BY owner HAVING COUNT(*) > 1 ORDER BY owner LIMIT 100");
    SEALING_KEY_DELETE_OLDER = both(
        "DELETE FROM sealing_keys WHERE owner = $1 AND key_version < $2 AND EXISTS (
            SELECT 1 FROM sealing_keys n WHERE n.owner = $1 AND n.key_version = $2 AND n.created_at < $3)");
    SEALING_KEY_DELETE_OF = both("DELETE FROM sealing_keys WHERE owner = $1");
}

/// A wrapped key.
#[derive(Debug, Clone)]
pub struct SealingKey {
    /// A tenant's id, or `platform`.
    pub owner: String,
    /// From 1; new secrets are sealed under the newest.
    pub key_version: i64,
    /// The root key that wraps it.
    pub root_key_id: String,
    /// The wrapped key.
    pub wrapped: Vec<u8>,
}

fn sealing_key(row: &Row) -> Result<SealingKey> {
    Ok(SealingKey {
        owner: row.get(0)?,
        key_version: row.get(1)?,
        root_key_id: row.get(2)?,
        wrapped: row.get(3)?,
    })
}

impl Store {
    /// Returns one version of an owner's key.
    pub async fn sealing_key_lookup(&self, owner: &str, version: i64) -> Result<Option<SealingKey>> {
        self.fetch_optional(&SEALING_KEY_GET, args![owner, version])
            .await?
            .as_ref()
            .map(sealing_key)
            .transpose()
    }

    /// Returns an owner's newest key.
    pub async fn sealing_key_newest(&self, owner: &str) -> Result<Option<SealingKey>> {
        self.fetch_optional(&SEALING_KEY_NEWEST, args![owner]).await?.as_ref().map(sealing_key).transpose()
    }

    /// Returns keys that are wrapped by another root key than this one.
    pub async fn sealing_keys_not_under(&self, root_key_id: &str, limit: i64) -> Result<Vec<SealingKey>> {
        self.fetch_all(&SEALING_KEY_UNDER_OTHER, args![root_key_id, limit])
            .await?
            .iter()
            .map(sealing_key)
            .collect()
    }

    /// Returns owners that have more than one version, with the newest.
    pub async fn sealing_keys_superseded(&self) -> Result<Vec<(String, i64)>> {
        let rows = self.fetch_all(&SEALING_KEY_SUPERSEDED, args![]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Counts the keys that this root key wraps.
    pub async fn sealing_keys_under(&self, root_key_id: &str) -> Result<i64> {
        match self.fetch_optional(&SEALING_KEY_UNDER, args![root_key_id]).await? {
            Some(row) => row.get(0),
            None => Ok(0),
        }
    }
}

impl Tx {
    /// Adds a key.
    pub async fn sealing_key_insert(&mut self, key: &SealingKey, at: Timestamp) -> Result<()> {
        let args = args![&key.owner, key.key_version, &key.root_key_id, key.wrapped.clone(), at];
        self.execute(&SEALING_KEY_INSERT, args).await.map(drop)
    }

    /// Replaces the wrapping of a key that is still wrapped by `from`.
    pub async fn sealing_key_rewrap(&mut self, key: &SealingKey, from: &str) -> Result<()> {
        let args = args![&key.owner, key.key_version, &key.root_key_id, key.wrapped.clone(), from];
        self.execute_one(&SEALING_KEY_REWRAP, args, StoreError::Stale).await
    }

    /// Destroys versions that no secret is sealed under any more, once the newest is older than `since`: a secret sealed
    /// just before the rotation may not be committed yet.
    pub async fn sealing_key_delete_older(
        &mut self,
        owner: &str,
        newest: i64,
        since: Timestamp,
    ) -> Result<()> {
        self.execute(&SEALING_KEY_DELETE_OLDER, args![owner, newest, since]).await.map(drop)
    }

    /// Destroys an owner's keys; anything sealed under them can never be read again.
    pub async fn sealing_key_delete_of(&mut self, owner: &str) -> Result<i64> {
        self.execute(&SEALING_KEY_DELETE_OF, args![owner]).await.map(|count| count as i64)
    }
}
