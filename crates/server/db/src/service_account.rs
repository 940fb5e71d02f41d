//! Service accounts.

use muster_ids::{ProjectId, ServiceAccountId, TenantId};
use muster_model::{LabelSelector, ServiceAccount};

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT id, tenant_id, project_id, name, description, permissions, disabled, labels, created_at, updated_at, version
         FROM service_accounts "
    };
}

statements! {
    SERVICE_ACCOUNT_INSERT = both(
        "INSERT INTO service_accounts (id, tenant_id, project_id, name, description, permissions, disabled, labels,
                                       created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
    SERVICE_ACCOUNT_GET = both(concat!(columns!(), "WHERE id = $1"));
    SERVICE_ACCOUNT_BY_NAME = both(concat!(columns!(), "WHERE project_id = $1 AND name = $2"));
    SERVICE_ACCOUNT_LIST = pair(
        concat!(columns!(), "WHERE id > $1 AND project_id = $2 AND ", labels_match!(pg "$4" "$5"), "ORDER BY id LIMIT $3"),
        concat!(columns!(), "WHERE id > $1 AND project_id = $2 AND ", labels_match!(sqlite "$4" "$5"),
            "ORDER BY id LIMIT $3"));
    SERVICE_ACCOUNT_UPDATE = both(
        "UPDATE service_accounts SET description = $2, permissions = $3, disabled = $4, labels = $5, updated_at = $6,
                                     version = version + 1
         WHERE id = $1 AND version = $7");
    SERVICE_ACCOUNT_DELETE = both("DELETE FROM service_accounts WHERE id = $1 AND version = $2");
    SERVICE_ACCOUNT_DELETE_OF_PROJECT = both("DELETE FROM service_accounts WHERE project_id = $1");
    SERVICE_ACCOUNT_DELETE_OF_TENANT = both("DELETE FROM service_accounts WHERE tenant_id = $1");
}

fn service_account(row: &Row) -> Result<ServiceAccount> {
    let permissions: serde_json::Value = row.get(5)?;
    Ok(ServiceAccount {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        name: row.get(3)?,
        description: row.get(4)?,
        permissions: serde_json::from_value(permissions).map_err(|_| StoreError::Corrupt("an allow list"))?,
        disabled: row.get(6)?,
        labels: row.get(7)?,
        created_at: row.get(8)?,
        updated_at: row.get(9)?,
        version: row.get(10)?,
    })
}

impl Store {
    /// Returns the service account with this id.
    pub async fn service_account_lookup(&self, id: ServiceAccountId) -> Result<Option<ServiceAccount>> {
        self.fetch_optional(&SERVICE_ACCOUNT_GET, args![id]).await?.as_ref().map(service_account).transpose()
    }

    /// Returns the project's service account with this name.
    pub async fn service_account_by_name(
        &self,
        project: ProjectId,
        name: &str,
    ) -> Result<Option<ServiceAccount>> {
        let row = self.fetch_optional(&SERVICE_ACCOUNT_BY_NAME, args![project, name]).await?;
        row.as_ref().map(service_account).transpose()
    }

    /// Returns a project's service accounts in creation order.
    pub async fn service_account_list(
        &self,
        page: Page,
        project: ProjectId,
        labels: &LabelSelector,
    ) -> Result<Vec<ServiceAccount>> {
        let args = args![page.after, project, page.size, labels.equal_json(), labels.not_equal_json()];
        self.fetch_all(&SERVICE_ACCOUNT_LIST, args).await?.iter().map(service_account).collect()
    }
}

impl Tx {
    /// Adds a service account.
    pub async fn service_account_insert(&mut self, account: &ServiceAccount) -> Result<()> {
        let args = args![
            account.id,
            account.tenant_id,
            account.project_id,
            &account.name,
            &account.description,
            serde_json::json!(account.permissions),
            account.disabled,
            &account.labels,
            account.created_at,
            account.updated_at,
            account.version
        ];
        self.insert(&SERVICE_ACCOUNT_INSERT, args).await
    }

    /// Updates a service account that still has the version before `account.version`.
    pub async fn service_account_update(&mut self, account: &ServiceAccount) -> Result<()> {
        let args = args![
            account.id,
            &account.description,
            serde_json::json!(account.permissions),
            account.disabled,
            &account.labels,
            account.updated_at,
            account.version - 1
        ];
        self.execute_one(&SERVICE_ACCOUNT_UPDATE, args, StoreError::Stale).await
    }

    /// Removes a service account. Its tokens must already be removed.
    pub async fn service_account_delete(&mut self, id: ServiceAccountId, version: i64) -> Result<()> {
        self.execute_one(&SERVICE_ACCOUNT_DELETE, args![id, version], StoreError::Stale).await
    }

    /// Removes a project's service accounts. Their tokens must already be removed.
    pub async fn service_account_delete_of_project(&mut self, project: ProjectId) -> Result<i64> {
        self.execute(&SERVICE_ACCOUNT_DELETE_OF_PROJECT, args![project]).await.map(|count| count as i64)
    }

    /// Removes a tenant's service accounts. Their tokens must already be removed.
    pub async fn service_account_delete_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        self.execute(&SERVICE_ACCOUNT_DELETE_OF_TENANT, args![tenant]).await.map(|count| count as i64)
    }
}
