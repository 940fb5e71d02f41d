//! Tenants.

use muster_ids::{TenantId, UserId};
use muster_model::{LabelSelector, Tenant};

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT id, slug, display_name, labels, created_at, updated_at, version FROM tenants "
    };
}

statements! {
    TENANT_INSERT = both(
        "INSERT INTO tenants (id, slug, display_name, labels, created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7)");
    TENANT_GET = both(concat!(columns!(), "WHERE id = $1"));
    TENANT_BY_SLUG = both(concat!(columns!(), "WHERE slug = $1"));
    // $1 after, $2 whether everything is visible, $3 the user with the role bindings otherwise, $4 limit, $5 and $6 labels.
    TENANT_LIST = pair(
        concat!(columns!(), "WHERE id > $1 AND ($2 OR EXISTS (
            SELECT 1 FROM role_bindings b WHERE b.user_id = $3 AND b.tenant_id = tenants.id AND b.role = 'tenant_admin'))
            AND ", labels_match!(pg "$5" "$6"), " ORDER BY id LIMIT $4"),
        concat!(columns!(), "WHERE id > $1 AND ($2 OR EXISTS (
            SELECT 1 FROM role_bindings b WHERE b.user_id = $3 AND b.tenant_id = tenants.id AND b.role = 'tenant_admin'))
            AND ", labels_match!(sqlite "$5" "$6"), " ORDER BY id LIMIT $4"));
    TENANT_UPDATE = both(
        "UPDATE tenants SET display_name = $2, labels = $3, updated_at = $4, version = version + 1
         WHERE id = $1 AND version = $5");
    TENANT_DELETE = both("DELETE FROM tenants WHERE id = $1 AND version = $2");
}

fn tenant(row: &Row) -> Result<Tenant> {
    Ok(Tenant {
        id: row.get(0)?,
        slug: row.get(1)?,
        display_name: row.get(2)?,
        labels: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
        version: row.get(6)?,
    })
}

impl Store {
    /// Returns the tenant with this id.
    pub async fn tenant_lookup(&self, id: TenantId) -> Result<Option<Tenant>> {
        self.fetch_optional(&TENANT_GET, args![id]).await?.as_ref().map(tenant).transpose()
    }

    /// Returns the tenant with this slug.
    pub async fn tenant_by_slug(&self, slug: &str) -> Result<Option<Tenant>> {
        self.fetch_optional(&TENANT_BY_SLUG, args![slug]).await?.as_ref().map(tenant).transpose()
    }

    /// Returns tenants in creation order; all of them, or those that `visible_to` administers.
    pub async fn tenant_list(
        &self,
        page: Page,
        visible_to: Option<UserId>,
        labels: &LabelSelector,
    ) -> Result<Vec<Tenant>> {
        let args = args![
            page.after,
            visible_to.is_none(),
            visible_to,
            page.size,
            labels.equal_json(),
            labels.not_equal_json()
        ];
        self.fetch_all(&TENANT_LIST, args).await?.iter().map(tenant).collect()
    }
}

impl Tx {
    /// Adds a tenant.
    pub async fn tenant_insert(&mut self, tenant: &Tenant) -> Result<()> {
        let args = args![
            tenant.id,
            &tenant.slug,
            &tenant.display_name,
            &tenant.labels,
            tenant.created_at,
            tenant.updated_at,
            tenant.version
        ];
        self.insert(&TENANT_INSERT, args).await
    }

    /// Updates a tenant that still has the version before `tenant.version`.
    pub async fn tenant_update(&mut self, tenant: &Tenant) -> Result<()> {
        let args =
            args![tenant.id, &tenant.display_name, &tenant.labels, tenant.updated_at, tenant.version - 1];
        self.execute_one(&TENANT_UPDATE, args, StoreError::Stale).await
    }

    /// Removes a tenant. Its contents must already be removed.
    pub async fn tenant_delete(&mut self, id: TenantId, version: i64) -> Result<()> {
        self.execute_one(&TENANT_DELETE, args![id, version], StoreError::Stale).await
    }
}
