//! Adapters: the description that each sent with its latest request for work.

use muster_ids::{ProjectId, ServiceAccountId, TenantId};
use muster_model::adapter::Adapter;

use crate::sql::{Row, args, both, statements};
use crate::{Page, Result, Store, Tx};

statements! {
    // The first request creates the row; later ones only update it.
    ADAPTER_SEEN = both(
        "INSERT INTO adapters (id, tenant_id, project_id, service_account_id, name, adapter_version, contract_version, created_at,
                               seen_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
         ON CONFLICT (service_account_id, name) DO UPDATE SET adapter_version = excluded.adapter_version,
            contract_version = excluded.contract_version, seen_at = excluded.seen_at");
    ADAPTER_LIST = both(
        "SELECT d.id, d.tenant_id, d.project_id, d.service_account_id, d.name, d.adapter_version, d.contract_version, d.created_at,
                d.seen_at,
                (SELECT COUNT(*) FROM adapter_steps s
                 WHERE s.operator_account_id = d.service_account_id AND s.state = 'leased' AND s.holder = d.name)
         FROM adapters d WHERE d.project_id = $2 AND d.id > $1 ORDER BY d.id LIMIT $3");
    ADAPTER_DELETE_OF_ACCOUNT = both("DELETE FROM adapters WHERE service_account_id = $1");
    ADAPTER_DELETE_OF_PROJECT = both("DELETE FROM adapters WHERE project_id = $1");
    ADAPTER_DELETE_OF_TENANT = both("DELETE FROM adapters WHERE tenant_id = $1");
}

/// An adapter, with its workload.
#[derive(Debug, Clone)]
pub struct FoundAdapter {
    /// The adapter.
    pub adapter: Adapter,
    /// The number of steps it has leased.
    pub leases: i64,
}

fn found_adapter(row: &Row) -> Result<FoundAdapter> {
    Ok(FoundAdapter {
        adapter: Adapter {
            id: row.get(0)?,
            tenant_id: row.get(1)?,
            project_id: row.get(2)?,
            service_account_id: row.get(3)?,
            name: row.get(4)?,
            adapter_version: row.get(5)?,
            contract_version: row.get(6)?,
            created_at: row.get(7)?,
            seen_at: row.get(8)?,
        },
        leases: row.get(9)?,
    })
}

impl Store {
    /// Returns the adapters of a project in order of their first request.
    pub async fn adapter_list(&self, page: Page, project: ProjectId) -> Result<Vec<FoundAdapter>> {
        let args = args![page.after, project, page.size];
        self.fetch_all(&ADAPTER_LIST, args).await?.iter().map(found_adapter).collect()
    }
}

impl Tx {
    /// Records a request for work at `adapter.seen_at` with the adapter's description of itself. The name identifies an
    /// adapter within its account, so a known adapter keeps its id.
    pub async fn adapter_seen(&mut self, adapter: &Adapter) -> Result<()> {
        let args = args![
            adapter.id,
            adapter.tenant_id,
            adapter.project_id,
            adapter.service_account_id,
            &adapter.name,
            &adapter.adapter_version,
            adapter.contract_version,
            adapter.seen_at
        ];
        self.execute(&ADAPTER_SEEN, args).await.map(drop)
    }

    /// Removes the adapters that worked under an account and returns how many there were.
    pub async fn adapter_delete_of_account(&mut self, account: ServiceAccountId) -> Result<u64> {
        self.execute(&ADAPTER_DELETE_OF_ACCOUNT, args![account]).await
    }

    /// Removes the adapters of a project and returns how many there were.
    pub async fn adapter_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&ADAPTER_DELETE_OF_PROJECT, args![project]).await
    }

    /// Removes the adapters of a tenant and returns how many there were.
    pub async fn adapter_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&ADAPTER_DELETE_OF_TENANT, args![tenant]).await
    }
}
