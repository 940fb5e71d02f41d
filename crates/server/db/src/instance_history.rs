//! History of instances and their members, deleted with their project or tenant.

use muster_ids::{ProjectId, TenantId};

use crate::sql::{args, both, statements};
use crate::{Result, Tx};

statements! {
    INSTANCE_HISTORY_LIVE_OF_PROJECT = both("SELECT COUNT(*) FROM instances WHERE project_id = $1 AND state <> 'stopped'");
    INSTANCE_HISTORY_LIVE_OF_TENANT = both("SELECT COUNT(*) FROM instances WHERE tenant_id = $1 AND state <> 'stopped'");
    // Cells and members refer to each other, so both references are cleared first.
    INSTANCE_HISTORY_CELLS_FORGET_OF_PROJECT = both("UPDATE members SET cell_id = NULL WHERE project_id = $1");
    INSTANCE_HISTORY_MEMBERS_FORGET_OF_PROJECT = both("UPDATE cells SET member_id = NULL WHERE project_id = $1");
    INSTANCE_HISTORY_STEPS_DELETE_OF_PROJECT = both("DELETE FROM adapter_steps WHERE project_id = $1");
    INSTANCE_HISTORY_REPORTS_DELETE_OF_PROJECT = both(
        "DELETE FROM member_reports WHERE member_id IN (SELECT id FROM members WHERE project_id = $1)");
    INSTANCE_HISTORY_MEMBERS_DELETE_OF_PROJECT = both("DELETE FROM members WHERE project_id = $1");
    INSTANCE_HISTORY_COMPONENTS_DELETE_OF_PROJECT = both(
        "DELETE FROM instance_components WHERE instance_id IN (SELECT id FROM instances WHERE project_id = $1)");
    INSTANCE_HISTORY_DELETE_OF_PROJECT = both("DELETE FROM instances WHERE project_id = $1 AND state = 'stopped'");
    INSTANCE_HISTORY_CELLS_FORGET_OF_TENANT = both("UPDATE members SET cell_id = NULL WHERE tenant_id = $1");
    INSTANCE_HISTORY_MEMBERS_FORGET_OF_TENANT = both("UPDATE cells SET member_id = NULL WHERE tenant_id = $1");
    INSTANCE_HISTORY_STEPS_DELETE_OF_TENANT = both("DELETE FROM adapter_steps WHERE tenant_id = $1");
    INSTANCE_HISTORY_REPORTS_DELETE_OF_TENANT = both(
        "DELETE FROM member_reports WHERE member_id IN (SELECT id FROM members WHERE tenant_id = $1)");
    INSTANCE_HISTORY_MEMBERS_DELETE_OF_TENANT = both("DELETE FROM members WHERE tenant_id = $1");
    INSTANCE_HISTORY_COMPONENTS_DELETE_OF_TENANT = both(
        "DELETE FROM instance_components WHERE instance_id IN (SELECT id FROM instances WHERE tenant_id = $1)");
    INSTANCE_HISTORY_DELETE_OF_TENANT = both("DELETE FROM instances WHERE tenant_id = $1 AND state = 'stopped'");
}

impl Tx {
    /// Counts the instances of a project that have not stopped, as read by this transaction.
    pub async fn instance_live_of_project_now(&mut self, project: ProjectId) -> Result<i64> {
        let rows = self.fetch_all(&INSTANCE_HISTORY_LIVE_OF_PROJECT, args![project]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Counts the instances of a tenant that have not stopped, as read by this transaction.
    pub async fn instance_live_of_tenant_now(&mut self, tenant: TenantId) -> Result<i64> {
        let rows = self.fetch_all(&INSTANCE_HISTORY_LIVE_OF_TENANT, args![tenant]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Removes the history of a project's instances and returns how many there were. None may be live, and the secrets
    /// issued to them must already be removed.
    pub async fn instance_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&INSTANCE_HISTORY_CELLS_FORGET_OF_PROJECT, args![project]).await?;
        self.execute(&INSTANCE_HISTORY_MEMBERS_FORGET_OF_PROJECT, args![project]).await?;
        self.execute(&INSTANCE_HISTORY_STEPS_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&INSTANCE_HISTORY_REPORTS_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&INSTANCE_HISTORY_MEMBERS_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&INSTANCE_HISTORY_COMPONENTS_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&INSTANCE_HISTORY_DELETE_OF_PROJECT, args![project]).await
    }

    /// Does the same for all projects of a tenant.
    pub async fn instance_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&INSTANCE_HISTORY_CELLS_FORGET_OF_TENANT, args![tenant]).await?;
        self.execute(&INSTANCE_HISTORY_MEMBERS_FORGET_OF_TENANT, args![tenant]).await?;
        self.execute(&INSTANCE_HISTORY_STEPS_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&INSTANCE_HISTORY_REPORTS_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&INSTANCE_HISTORY_MEMBERS_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&INSTANCE_HISTORY_COMPONENTS_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&INSTANCE_HISTORY_DELETE_OF_TENANT, args![tenant]).await
    }
}
