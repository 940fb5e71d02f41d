//! Entitlements: the right of a project to launch an app, and the account that operates the app there.

use jiff::Timestamp;
use muster_ids::{AppId, EntitlementId, ProjectId, ServiceAccountId, TenantId};
use muster_model::app::Entitlement;

use crate::sql::{Row, args, both, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT e.id, e.tenant_id, e.project_id, e.app_id, e.publisher_project_id, e.operator_account_id, e.permissions,
                e.revoked_at, e.created_at, e.updated_at, e.version, a.slug
         FROM entitlements e JOIN apps a ON a.id = e.app_id "
    };
}

statements! {
    ENTITLEMENT_PUT = both(
        "INSERT INTO entitlements (id, tenant_id, project_id, app_id, publisher_project_id, operator_account_id, permissions,
                                   created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)");
    ENTITLEMENT_GET = both(concat!(columns!(), "WHERE e.id = $1"));
    ENTITLEMENT_OF_APP = both(concat!(columns!(), "WHERE e.project_id = $1 AND e.app_id = $2"));
    ENTITLEMENT_OF_ACCOUNT = both(concat!(columns!(), "WHERE e.operator_account_id = $1"));
    ENTITLEMENT_LIST = both(concat!(columns!(), "WHERE e.id > $1 AND e.project_id = $2 ORDER BY e.id LIMIT $3"));
    ENTITLEMENT_LIST_PUBLISHED = both(concat!(columns!(), "WHERE e.id > $1 AND a.project_id = $2 ORDER BY e.id LIMIT $3"));
    ENTITLEMENT_UPDATE = both(
        "UPDATE entitlements SET permissions = $2, revoked_at = $3, updated_at = $4, version = version + 1
         WHERE id = $1 AND version = $5");
    // Only locks the row: a concurrent revocation waits, and then finds the new instance.
    ENTITLEMENT_START = both(
        "UPDATE entitlements SET updated_at = updated_at WHERE id = $1 AND revoked_at IS NULL");
    ENTITLEMENT_INSTANCES = both(
        "SELECT COUNT(*) FROM instances WHERE operator_account_id = $1 AND state <> 'stopped'");
    // The account of a revoked entitlement that operates nothing any more.
    ENTITLEMENT_ACCOUNT_REST = both(
        "UPDATE service_accounts SET disabled = TRUE, updated_at = $2, version = version + 1
         WHERE id = $1 AND NOT disabled
           AND EXISTS (SELECT 1 FROM entitlements e WHERE e.operator_account_id = $1 AND e.revoked_at IS NOT NULL)
           AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.operator_account_id = $1 AND i.state <> 'stopped')");
    // The consumer disables the adapter's account, even if it still operates instances.
    ENTITLEMENT_ACCOUNT_CUT_OFF = both(
        "UPDATE service_accounts SET disabled = TRUE, updated_at = $2, version = version + 1
         WHERE id = $1 AND NOT disabled
           AND EXISTS (SELECT 1 FROM entitlements e WHERE e.operator_account_id = $1 AND e.revoked_at IS NOT NULL)");
    // Its leases end first, so that no task is queued under one afterwards.
    ENTITLEMENT_STEPS_TAKE_BACK = both(
        "UPDATE adapter_steps SET state = 'queued', leased_until = NULL, holder = '' WHERE operator_account_id = $1 AND state = 'leased'");
    ENTITLEMENT_TASKS_EXPIRE = both(
        "UPDATE node_tasks SET state = 'expired', finished_at = $2
         WHERE state IN ('queued', 'delivered', 'running') AND SUBSTR(key, 1, LENGTH($3)) = $3
           AND operation_id IN (SELECT COALESCE(s.operation_id, s.id) FROM adapter_steps s WHERE s.operator_account_id = $1)");
    ENTITLEMENT_DELETE_OF_ACCOUNT = both(
        "DELETE FROM entitlements WHERE operator_account_id = $1 AND revoked_at IS NOT NULL");
    ENTITLEMENT_DELETE_OF_APP = both("DELETE FROM entitlements WHERE app_id = $1 AND revoked_at IS NOT NULL");
    ENTITLEMENT_DELETE_TO_PROJECT = both(
        "DELETE FROM entitlements WHERE revoked_at IS NOT NULL AND app_id IN (SELECT id FROM apps WHERE project_id = $1)");
    ENTITLEMENT_DELETE_TO_TENANT = both(
        "DELETE FROM entitlements WHERE revoked_at IS NOT NULL AND app_id IN (SELECT id FROM apps WHERE tenant_id = $1)");
    ENTITLEMENT_DELETE_OF_PROJECT = both("DELETE FROM entitlements WHERE project_id = $1");
    ENTITLEMENT_DELETE_OF_TENANT = both("DELETE FROM entitlements WHERE tenant_id = $1");
}

/// An entitlement with the slug of its app.
#[derive(Debug, Clone)]
pub struct FoundEntitlement {
    /// The entitlement.
    pub entitlement: Entitlement,
    /// The app's slug.
    pub app: String,
}

fn found_entitlement(row: &Row) -> Result<FoundEntitlement> {
    let permissions: serde_json::Value = row.get(6)?;
    Ok(FoundEntitlement {
        entitlement: Entitlement {
            id: row.get(0)?,
            tenant_id: row.get(1)?,
            project_id: row.get(2)?,
            app_id: row.get(3)?,
            publisher_project_id: row.get(4)?,
            operator_account_id: row.get(5)?,
            permissions: serde_json::from_value(permissions)
                .map_err(|_| StoreError::Corrupt("an allow list"))?,
            revoked_at: row.get(7)?,
            created_at: row.get(8)?,
            updated_at: row.get(9)?,
            version: row.get(10)?,
        },
        app: row.get(11)?,
    })
}

impl Store {
    /// Returns the entitlement with this id.
    pub async fn entitlement_lookup(&self, id: EntitlementId) -> Result<Option<FoundEntitlement>> {
        let row = self.fetch_optional(&ENTITLEMENT_GET, args![id]).await?;
        row.as_ref().map(found_entitlement).transpose()
    }

    /// Returns a project's entitlement to an app, revoked or not.
    pub async fn entitlement_of_app(
        &self,
        project: ProjectId,
        app: AppId,
    ) -> Result<Option<FoundEntitlement>> {
        let row = self.fetch_optional(&ENTITLEMENT_OF_APP, args![project, app]).await?;
        row.as_ref().map(found_entitlement).transpose()
    }

    /// Returns the entitlement that an account was created for, if any.
    pub async fn entitlement_of_account(
        &self,
        account: ServiceAccountId,
    ) -> Result<Option<FoundEntitlement>> {
        let row = self.fetch_optional(&ENTITLEMENT_OF_ACCOUNT, args![account]).await?;
        row.as_ref().map(found_entitlement).transpose()
    }

    /// Counts the live instances that an account operates.
    pub async fn entitlement_instances(&self, account: ServiceAccountId) -> Result<i64> {
        let row = self.fetch_optional(&ENTITLEMENT_INSTANCES, args![account]).await?;
        row.map_or(Ok(0), |row| row.get(0))
    }

    /// Returns a project's entitlements in the order they were granted.
    pub async fn entitlement_list(&self, page: Page, project: ProjectId) -> Result<Vec<FoundEntitlement>> {
        let args = args![page.after, project, page.size];
        self.fetch_all(&ENTITLEMENT_LIST, args).await?.iter().map(found_entitlement).collect()
    }

    /// Returns the entitlements of all projects to the apps that a project publishes.
    pub async fn entitlement_list_published(
        &self,
        page: Page,
        project: ProjectId,
    ) -> Result<Vec<FoundEntitlement>> {
        let args = args![page.after, project, page.size];
        self.fetch_all(&ENTITLEMENT_LIST_PUBLISHED, args).await?.iter().map(found_entitlement).collect()
    }
}

impl Tx {
    /// Adds an entitlement; its account must exist.
    pub async fn entitlement_insert(&mut self, entitlement: &Entitlement) -> Result<()> {
        let args = args![
            entitlement.id,
            entitlement.tenant_id,
            entitlement.project_id,
            entitlement.app_id,
            entitlement.publisher_project_id,
            entitlement.operator_account_id,
            serde_json::json!(entitlement.permissions),
            entitlement.created_at,
            entitlement.updated_at,
            entitlement.version
        ];
        self.execute(&ENTITLEMENT_PUT, args).await.map(drop)
    }

    /// Updates an entitlement that still has the version before `entitlement.version`.
    pub async fn entitlement_update(&mut self, entitlement: &Entitlement) -> Result<()> {
        let args = args![
            entitlement.id,
            serde_json::json!(entitlement.permissions),
            entitlement.revoked_at,
            entitlement.updated_at,
            entitlement.version - 1
        ];
        self.execute_one(&ENTITLEMENT_UPDATE, args, StoreError::Stale).await
    }

    /// Reports whether an entitlement allows a launch, and locks it until the transaction ends.
    pub async fn entitlement_start(&mut self, id: EntitlementId) -> Result<bool> {
        Ok(self.execute(&ENTITLEMENT_START, args![id]).await? == 1)
    }

    /// Counts the live instances that an account operates, as read by this transaction.
    pub async fn entitlement_instances(&mut self, account: ServiceAccountId) -> Result<i64> {
        let rows = self.fetch_all(&ENTITLEMENT_INSTANCES, args![account]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Disables an operator account if its entitlement is revoked and it operates no live instance; reports whether it did.
    /// Called after every revocation and after every stop of an instance.
    pub async fn entitlement_account_rest(
        &mut self,
        account: ServiceAccountId,
        at: Timestamp,
    ) -> Result<bool> {
        Ok(self.execute(&ENTITLEMENT_ACCOUNT_REST, args![account, at]).await? == 1)
    }

    /// Disables the account of a revoked entitlement, even if it still operates instances; reports whether it was enabled
    /// before.
    pub async fn entitlement_account_cut_off(
        &mut self,
        account: ServiceAccountId,
        at: Timestamp,
    ) -> Result<bool> {
        Ok(self.execute(&ENTITLEMENT_ACCOUNT_CUT_OFF, args![account, at]).await? == 1)
    }

    /// Ends the leases of an account's steps, and expires every open task of these steps; `prefix` begins the keys of such tasks. An
    /// agent that began one is not stopped by it, but no agent begins or repeats one. Says how many there were.
    pub async fn entitlement_tasks_expire(
        &mut self,
        account: ServiceAccountId,
        prefix: &str,
        at: Timestamp,
    ) -> Result<u64> {
        self.execute(&ENTITLEMENT_STEPS_TAKE_BACK, args![account]).await?;
        self.execute(&ENTITLEMENT_TASKS_EXPIRE, args![account, at, prefix]).await
    }

    /// Removes the revoked entitlement that an account was made for; says whether there was one.
    pub async fn entitlement_delete_of_account(&mut self, account: ServiceAccountId) -> Result<bool> {
        Ok(self.execute(&ENTITLEMENT_DELETE_OF_ACCOUNT, args![account]).await? == 1)
    }

    pub(crate) async fn entitlement_delete_of_app(&mut self, app: AppId) -> Result<u64> {
        self.execute(&ENTITLEMENT_DELETE_OF_APP, args![app]).await
    }

    pub(crate) async fn entitlement_delete_to_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&ENTITLEMENT_DELETE_TO_PROJECT, args![project]).await
    }

    pub(crate) async fn entitlement_delete_to_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&ENTITLEMENT_DELETE_TO_TENANT, args![tenant]).await
    }

    /// Removes a project's entitlements, revoked or not, and returns how many there were.
    pub async fn entitlement_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&ENTITLEMENT_DELETE_OF_PROJECT, args![project]).await
    }

    /// Removes a tenant's entitlements, revoked or not, and returns how many there were.
    pub async fn entitlement_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&ENTITLEMENT_DELETE_OF_TENANT, args![tenant]).await
    }
}
