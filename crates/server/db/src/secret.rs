//! A project's own secrets, sealed.
//!
//! The cells that use a secret are read from their specs. A table of references was rejected: it would be a second source of
//! truth. A lock on the secret's row keeps a cell from referring to a secret that is being removed: creating a cell locks
//! the row, and removing a secret searches for cells only after it has deleted the row.

use std::collections::BTreeSet;

use muster_ids::{ProjectId, RuntimeSecretId, SecretId, TenantId};
use muster_model::Record as _;
use muster_model::secret::ProjectSecret;
use serde_json::Value;

use crate::sql::{args, both, pair, statements};
use crate::{Result, Store, StoreError, Tx};

/// Returns the references to project secrets in a cell's spec, in the order in which their rows are locked: a fixed one, so
/// that two transactions cannot deadlock.
fn project_secrets(spec: &Value) -> BTreeSet<&str> {
    let named = spec["secrets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let references = named.iter().filter_map(|file| file["secret"].as_str());
    references.filter(|reference| reference.parse::<RuntimeSecretId>().is_err()).collect()
}

statements! {
    SECRET_SEALED_OF_TENANT = both("SELECT * FROM secrets WHERE tenant_id = $1 ORDER BY id");
    SECRET_RESEAL = both("UPDATE secrets SET sealed = $2 WHERE id = $1 AND sealed = $3");
    // Removing a secret waits for a concurrent creation of a cell that uses it, and vice versa.
    // $1 project, $2 name, $3 id.
    SECRET_HOLD = pair(
        "SELECT id FROM secrets WHERE project_id = $1 AND (name = $2 OR id = $3) FOR SHARE",
        "SELECT id FROM secrets WHERE project_id = $1 AND (name = $2 OR id = $3)");
    // $1 project, $2 name, $3 id as text.
    SECRET_NAMED_BY = pair(
        "SELECT c.name FROM cells c WHERE c.project_id = $1 AND c.state NOT IN ('destroyed', 'failed')
            AND EXISTS (SELECT 1 FROM jsonb_array_elements(COALESCE(c.spec -> 'secrets', '[]'::jsonb)) AS given (file)
                WHERE given.file ->> 'secret' IN ($2, $3))
         ORDER BY c.id LIMIT 10",
        "SELECT c.name FROM cells c WHERE c.project_id = $1 AND c.state NOT IN ('destroyed', 'failed')
            AND EXISTS (SELECT 1 FROM json_each(c.spec, '$.secrets') AS given
                WHERE given.value ->> 'secret' IN ($2, $3))
         ORDER BY c.id LIMIT 10");
    SECRET_DELETE_OF_PROJECT = both("DELETE FROM secrets WHERE project_id = $1");
    SECRET_DELETE_OF_TENANT = both("DELETE FROM secrets WHERE tenant_id = $1");
}

impl Store {
    /// Returns the secrets of all projects of a tenant.
    pub async fn secret_of_tenant(&self, tenant: TenantId) -> Result<Vec<ProjectSecret>> {
        self.fetch_all(&SECRET_SEALED_OF_TENANT, args![tenant])
            .await?
            .iter()
            .map(ProjectSecret::from_row)
            .collect()
    }
}

impl Tx {
    /// Replaces sealed content that still equals `before` with the same content, sealed under a new key.
    pub async fn secret_reseal(&mut self, id: SecretId, sealed: Vec<u8>, before: Vec<u8>) -> Result<()> {
        self.execute_one(&SECRET_RESEAL, args![id, sealed, before], StoreError::Stale).await
    }

    /// Keeps the project secrets that a cell's spec names from being removed until the transaction ends. Returns the first
    /// reference whose secret does not exist.
    pub async fn secret_missing(&mut self, project: ProjectId, spec: &Value) -> Result<Option<String>> {
        for reference in project_secrets(spec) {
            let id = reference.parse::<SecretId>().ok();
            if self.fetch_all(&SECRET_HOLD, args![project, reference, id]).await?.is_empty() {
                return Ok(Some(reference.to_owned()));
            }
        }
        Ok(None)
    }

    /// As `secret_missing`; returns `Gone` for a missing secret. Each statement that stores a cell's spec calls it first, so
    /// that no cell can name a secret that was removed.
    pub(crate) async fn secret_hold(&mut self, project: ProjectId, spec: &Value) -> Result<()> {
        match self.secret_missing(project, spec).await? {
            None => Ok(()),
            Some(reference) => Err(StoreError::Gone(format!("secret {reference}"))),
        }
    }

    /// Removes a secret. Returns the names of up to ten live cells that use it; if there are any, the caller rolls back.
    pub async fn secret_delete(&mut self, secret: &ProjectSecret) -> Result<Vec<String>> {
        self.delete_record(secret).await?;
        let args = args![secret.project_id, &secret.name, secret.id.to_string()];
        self.fetch_all(&SECRET_NAMED_BY, args).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Removes the secrets of a project and returns how many there were.
    pub async fn secret_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&SECRET_DELETE_OF_PROJECT, args![project]).await
    }

    /// Removes the secrets of all projects of a tenant.
    pub async fn secret_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&SECRET_DELETE_OF_TENANT, args![tenant]).await
    }
}
