//! Secrets issued by the platform for a purpose: credentials are stored as a hash only, other material sealed.
//!
//! A secret issued to a cell ends with that incarnation of the cell: `Tx::cell_move` revokes it in the transaction that ends
//! the incarnation.

use jiff::Timestamp;
use muster_ids::{CellId, InstanceId, ProjectId, RepositoryId, RuntimeSecretId, ServiceAccountId, TenantId};
use muster_model::secret::{Purpose, RuntimeSecret};

use crate::sql::{Row, args, both, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, purpose, name, repository_id, cell_id, incarnation, hash, sealed, expires_at, revoked_at,
         created_at, version, instance_id"
    };
}

statements! {
    RUNTIME_SECRET_INSERT = both(concat!("INSERT INTO runtime_secrets (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"));
    RUNTIME_SECRET_GET = both(concat!("SELECT ", columns!(), " FROM runtime_secrets WHERE id = $1"));
    #[cfg(feature = "test-api")]
    RUNTIME_SECRET_BY_HASH = both(concat!("SELECT ", columns!(), " FROM runtime_secrets WHERE hash = $1"));
    // $4 purpose or null, $5 operator account or null.
    RUNTIME_SECRET_LIST = pair(
        concat!("SELECT ", columns!(), " FROM runtime_secrets WHERE id > $1 AND project_id = $2
         AND purpose = COALESCE($4, purpose)
         AND ($5::uuid IS NULL OR instance_id IN (SELECT id FROM instances WHERE operator_account_id = $5)) ORDER BY id LIMIT $3"),
        concat!("SELECT ", columns!(), " FROM runtime_secrets WHERE id > $1 AND project_id = $2
         AND purpose = COALESCE($4, purpose)
         AND ($5 IS NULL OR instance_id IN (SELECT id FROM instances WHERE operator_account_id = $5)) ORDER BY id LIMIT $3"));
    RUNTIME_SECRET_SEALED_OF_TENANT = both(concat!("SELECT ", columns!(), " FROM runtime_secrets
         WHERE tenant_id = $1 AND sealed IS NOT NULL ORDER BY id"));
    // Revoked material has no further use, so it is erased.
    RUNTIME_SECRET_REVOKE = both(
        "UPDATE runtime_secrets SET revoked_at = $2, sealed = NULL, version = version + 1
         WHERE id = $1 AND version = $3 AND revoked_at IS NULL");
    RUNTIME_SECRET_REVOKE_EARLIER = both(
        "UPDATE runtime_secrets SET revoked_at = $4, version = version + 1
         WHERE cell_id = $1 AND incarnation = $2 AND repository_id = $3 AND purpose = 'artifact_pull' AND revoked_at IS NULL");
    RUNTIME_SECRET_REVOKE_OF_CELL = both(
        "UPDATE runtime_secrets SET revoked_at = $3, version = version + 1
         WHERE cell_id = $1 AND incarnation < $2 AND revoked_at IS NULL");
    RUNTIME_SECRET_REVOKE_OF_INSTANCE = both(
        "UPDATE runtime_secrets SET revoked_at = $2, sealed = NULL, version = version + 1
         WHERE instance_id = $1 AND revoked_at IS NULL");
    RUNTIME_SECRET_RESEAL = both("UPDATE runtime_secrets SET sealed = $2 WHERE id = $1 AND sealed = $3");
    RUNTIME_SECRET_PRUNE = both("DELETE FROM runtime_secrets WHERE expires_at < $1 OR revoked_at < $1");
    RUNTIME_SECRET_DELETE_OF_PROJECT = both("DELETE FROM runtime_secrets WHERE project_id = $1");
    RUNTIME_SECRET_DELETE_OF_TENANT = both("DELETE FROM runtime_secrets WHERE tenant_id = $1");
}

fn runtime_secret(row: &Row) -> Result<RuntimeSecret> {
    let purpose: String = row.get(3)?;
    Ok(RuntimeSecret {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        purpose: Purpose::parse(&purpose).ok_or(StoreError::Corrupt("a purpose"))?,
        name: row.get(4)?,
        repository_id: row.get(5)?,
        cell_id: row.get(6)?,
        incarnation: row.get(7)?,
        hash: row.get(8)?,
        sealed: row.get(9)?,
        expires_at: row.get(10)?,
        revoked_at: row.get(11)?,
        created_at: row.get(12)?,
        version: row.get(13)?,
        instance_id: row.get(14)?,
    })
}

impl Store {
    /// Returns the runtime secret with this id.
    pub async fn runtime_secret_lookup(&self, id: RuntimeSecretId) -> Result<Option<RuntimeSecret>> {
        self.fetch_optional(&RUNTIME_SECRET_GET, args![id]).await?.as_ref().map(runtime_secret).transpose()
    }

    /// Returns the credential with this hash, valid or not.
    #[cfg(feature = "test-api")]
    pub async fn runtime_secret_by_hash(&self, hash: &[u8; 32]) -> Result<Option<RuntimeSecret>> {
        self.fetch_optional(&RUNTIME_SECRET_BY_HASH, args![*hash])
            .await?
            .as_ref()
            .map(runtime_secret)
            .transpose()
    }

    /// Returns the secrets issued in a project in issue order; with an account, only those of instances it operates.
    pub async fn runtime_secret_list(
        &self,
        page: Page,
        project: ProjectId,
        purpose: Option<Purpose>,
        operator: Option<ServiceAccountId>,
    ) -> Result<Vec<RuntimeSecret>> {
        let args = args![page.after, project, page.size, purpose.map(Purpose::as_str), operator];
        self.fetch_all(&RUNTIME_SECRET_LIST, args).await?.iter().map(runtime_secret).collect()
    }

    /// Returns the sealed secrets of a tenant.
    pub async fn runtime_secret_of_tenant(&self, tenant: TenantId) -> Result<Vec<RuntimeSecret>> {
        self.fetch_all(&RUNTIME_SECRET_SEALED_OF_TENANT, args![tenant])
            .await?
            .iter()
            .map(runtime_secret)
            .collect()
    }
}

impl Tx {
    /// Records an issued secret.
    pub async fn runtime_secret_insert(&mut self, secret: &RuntimeSecret) -> Result<()> {
        let args = args![
            secret.id,
            secret.tenant_id,
            secret.project_id,
            secret.purpose.as_str(),
            &secret.name,
            secret.repository_id,
            secret.cell_id,
            secret.incarnation,
            secret.hash,
            secret.sealed.clone(),
            secret.expires_at,
            secret.revoked_at,
            secret.created_at,
            secret.version,
            secret.instance_id
        ];
        self.execute(&RUNTIME_SECRET_INSERT, args).await.map(drop)
    }

    /// Revokes a secret that still has this version and is not revoked yet; erases sealed material.
    pub async fn runtime_secret_revoke(
        &mut self,
        id: RuntimeSecretId,
        version: i64,
        at: Timestamp,
    ) -> Result<()> {
        self.execute_one(&RUNTIME_SECRET_REVOKE, args![id, at, version], StoreError::Stale).await
    }

    /// Revokes earlier credentials of this incarnation of a cell for this repository and returns how many there were.
    pub async fn runtime_secret_revoke_earlier(
        &mut self,
        cell: CellId,
        incarnation: i64,
        repository: RepositoryId,
        at: Timestamp,
    ) -> Result<u64> {
        self.execute(&RUNTIME_SECRET_REVOKE_EARLIER, args![cell, incarnation, repository, at]).await
    }

    /// Revokes secrets issued to incarnations of a cell before this one.
    pub async fn runtime_secret_revoke_of_cell(
        &mut self,
        cell: CellId,
        before: i64,
        at: Timestamp,
    ) -> Result<()> {
        self.execute(&RUNTIME_SECRET_REVOKE_OF_CELL, args![cell, before, at]).await.map(drop)
    }

    /// Revokes all secrets issued to an instance.
    pub async fn runtime_secret_revoke_of_instance(
        &mut self,
        instance: InstanceId,
        at: Timestamp,
    ) -> Result<()> {
        self.execute(&RUNTIME_SECRET_REVOKE_OF_INSTANCE, args![instance, at]).await.map(drop)
    }

    /// Replaces sealed material that still equals `before` with the same material, sealed under a new key.
    pub async fn runtime_secret_reseal(
        &mut self,
        id: RuntimeSecretId,
        sealed: Vec<u8>,
        before: Vec<u8>,
    ) -> Result<()> {
        self.execute_one(&RUNTIME_SECRET_RESEAL, args![id, sealed, before], StoreError::Stale).await
    }

    /// Deletes secrets that ended before this.
    pub async fn runtime_secret_prune(&mut self, before: Timestamp) -> Result<u64> {
        self.execute(&RUNTIME_SECRET_PRUNE, args![before]).await
    }

    /// Removes the secrets issued in a project and returns how many there were.
    pub async fn runtime_secret_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&RUNTIME_SECRET_DELETE_OF_PROJECT, args![project]).await
    }

    /// Does the same for all projects of a tenant.
    pub async fn runtime_secret_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&RUNTIME_SECRET_DELETE_OF_TENANT, args![tenant]).await
    }
}
