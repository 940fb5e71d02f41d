//! Enrolments: one-time tokens for nodes to join, and the authority that signs their certificates.

use jiff::Timestamp;
use muster_ids::{EnrolmentId, NodeId};
use muster_model::Labels;

use crate::node::KeyHash;
use crate::sql::{args, both, pair, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    ENROLMENT_INSERT = both(
        "INSERT INTO enrolments (id, hash, node_name, labels, node_id, created_by, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    ENROLMENT_BY_HASH = both(
        "SELECT id, node_name, labels, node_id, key_sha256 FROM enrolments WHERE hash = $1 AND expires_at > $2");
    ENROLMENT_LOCK = pair(
        "SELECT id FROM enrolments WHERE id = $1 AND used_at IS NULL AND expires_at > $2 FOR UPDATE",
        "SELECT id FROM enrolments WHERE id = $1 AND used_at IS NULL AND expires_at > $2");
    // Commits together with the node: either the token is used and the node exists, or neither.
    ENROLMENT_USE = both(
        "UPDATE enrolments SET used_at = $2, node_id = $3, key_sha256 = $4
         WHERE id = $1 AND used_at IS NULL AND expires_at > $2 AND (node_id IS NULL OR node_id = $3)");
    ENROLMENT_PRUNE = both("DELETE FROM enrolments WHERE expires_at < $1 AND used_at IS NULL");
    AUTHORITY_GET = both(
        "SELECT certificate, sealed_key, key_version, created_at FROM authorities WHERE name = $1");
    AUTHORITY_PUT = both(
        "INSERT INTO authorities (name, certificate, sealed_key, key_version, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (name) DO NOTHING");
}

/// A one-time right to join.
#[derive(Debug, Clone)]
pub struct Enrolment {
    /// Its id.
    pub id: EnrolmentId,
    /// The required node name, if fixed.
    pub node_name: Option<String>,
    /// The labels for the node.
    pub labels: Labels,
    /// The existing node that the enrolment is for; after use, the node that joined.
    pub node_id: Option<NodeId>,
    /// Hash of the key that it was used with.
    pub used_with: Option<KeyHash>,
}

/// A certificate authority of the platform.
#[derive(Debug, Clone)]
pub struct Authority {
    /// The certificate, as PEM.
    pub certificate: String,
    /// The private key, sealed.
    pub sealed_key: Vec<u8>,
    /// The version of the sealing key.
    pub key_version: i64,
    /// Creation time.
    pub created_at: Timestamp,
}

impl Store {
    /// Returns the unexpired enrolment for this token hash, used or not.
    pub async fn enrolment_by_hash(&self, hash: &[u8], now: Timestamp) -> Result<Option<Enrolment>> {
        let row = self.fetch_optional(&ENROLMENT_BY_HASH, args![hash.to_vec(), now]).await?;
        row.map(|row| {
            Ok(Enrolment {
                id: row.get(0)?,
                node_name: row.get(1)?,
                labels: row.get(2)?,
                node_id: row.get(3)?,
                used_with: row.get(4)?,
            })
        })
        .transpose()
    }

    /// Returns the authority of this name.
    pub async fn authority_lookup(&self, name: &str) -> Result<Option<Authority>> {
        let row = self.fetch_optional(&AUTHORITY_GET, args![name]).await?;
        row.map(|row| {
            Ok(Authority {
                certificate: row.get(0)?,
                sealed_key: row.get(1)?,
                key_version: row.get(2)?,
                created_at: row.get(3)?,
            })
        })
        .transpose()
    }
}

impl Tx {
    /// Creates an enrolment; only the token's hash is stored.
    pub async fn enrolment_insert(
        &mut self,
        enrolment: &Enrolment,
        hash: &[u8],
        created_by: &str,
        created_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<()> {
        let args = args![
            enrolment.id,
            hash.to_vec(),
            enrolment.node_name.as_deref(),
            &enrolment.labels,
            enrolment.node_id,
            created_by,
            created_at,
            expires_at
        ];
        self.insert(&ENROLMENT_INSERT, args).await
    }

    /// Locks an enrolment until this transaction ends; returns `Fenced` if it is used or expired. Callers lock it before
    /// they create the node, so that a concurrent request with the same token fails here and not with a name conflict.
    pub async fn enrolment_lock(&mut self, id: EnrolmentId, at: Timestamp) -> Result<()> {
        let open = self.fetch_all(&ENROLMENT_LOCK, args![id, at]).await?;
        if open.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// Marks an enrolment as used with this key; returns `Fenced` if it is used or expired.
    pub async fn enrolment_use(
        &mut self,
        id: EnrolmentId,
        node: NodeId,
        key: KeyHash,
        at: Timestamp,
    ) -> Result<()> {
        self.execute_one(&ENROLMENT_USE, args![id, at, node, key], StoreError::Fenced).await
    }

    /// Deletes unused enrolments that expired before `until`.
    pub async fn enrolment_prune(&mut self, until: Timestamp) -> Result<u64> {
        self.execute(&ENROLMENT_PRUNE, args![until]).await
    }

    /// Stores an authority unless one exists; reports whether it was stored.
    pub async fn authority_put(&mut self, name: &str, authority: &Authority) -> Result<bool> {
        let args = args![
            name,
            &authority.certificate,
            authority.sealed_key.clone(),
            authority.key_version,
            authority.created_at
        ];
        Ok(self.execute(&AUTHORITY_PUT, args).await? == 1)
    }
}
