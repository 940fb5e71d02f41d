//! Role bindings.

use muster_ids::{ProjectId, RoleBindingId, TenantId, UserId};
use muster_model::{Role, RoleBinding, Scope};

use crate::sql::{Row, args, both, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT b.id, b.user_id, u.email, b.role, b.tenant_id, b.project_id, b.created_at
         FROM role_bindings b JOIN users u ON u.id = b.user_id "
    };
}

statements! {
    ROLE_BINDING_INSERT = both(
        "INSERT INTO role_bindings (id, user_id, role, tenant_id, project_id, created_at) VALUES ($1, $2, $3, $4, $5, $6)");
    ROLE_BINDING_GET = both(concat!(columns!(), "WHERE b.id = $1"));
    ROLE_BINDING_OF_USER = both(concat!(columns!(), "WHERE b.user_id = $1 ORDER BY b.id"));
    ROLE_BINDING_LIST = both(concat!(columns!(),
        "WHERE b.id > $1 AND ($2 OR b.tenant_id = $3) AND ($4 OR b.project_id = $5) ORDER BY b.id LIMIT $6"));
    ROLE_BINDING_COUNT = both(
        "SELECT COUNT(*) FROM role_bindings WHERE role = $1 AND tenant_id = $2 AND ($3 OR project_id = $4)");
    ROLE_BINDING_DELETE = both("DELETE FROM role_bindings WHERE id = $1");
    ROLE_BINDING_DELETE_OF_USER = both("DELETE FROM role_bindings WHERE user_id = $1");
    ROLE_BINDING_DELETE_OF_PROJECT = both("DELETE FROM role_bindings WHERE project_id = $1");
    ROLE_BINDING_DELETE_OF_TENANT = both(
        "DELETE FROM role_bindings WHERE tenant_id = $1 OR user_id IN (SELECT id FROM users WHERE tenant_id = $1)");
}

fn role_binding(row: &Row) -> Result<RoleBinding> {
    let role: String = row.get(3)?;
    Ok(RoleBinding {
        id: row.get(0)?,
        user_id: row.get(1)?,
        user_email: row.get(2)?,
        role: Role::parse(&role).ok_or(StoreError::Corrupt("a role"))?,
        scope: Scope::from_columns(row.get(4)?, row.get(5)?),
        created_at: row.get(6)?,
    })
}

impl Store {
    /// Returns the binding with this id.
    pub async fn role_binding_lookup(&self, id: RoleBindingId) -> Result<Option<RoleBinding>> {
        self.fetch_optional(&ROLE_BINDING_GET, args![id]).await?.as_ref().map(role_binding).transpose()
    }

    /// Returns how many have a role in a tenant, or in a project.
    pub async fn role_binding_count(&self, role: Role, scope: Scope) -> Result<i64> {
        let args = args![role.as_str(), scope.tenant(), scope.project().is_none(), scope.project()];
        self.fetch_optional(&ROLE_BINDING_COUNT, args).await?.map_or(Ok(0), |row| row.get(0))
    }

    /// Returns the bindings of a user.
    pub async fn role_bindings_of_user(&self, user: UserId) -> Result<Vec<RoleBinding>> {
        self.fetch_all(&ROLE_BINDING_OF_USER, args![user]).await?.iter().map(role_binding).collect()
    }

    /// Returns the bindings inside a scope.
    pub async fn role_binding_list(&self, page: Page, scope: Scope) -> Result<Vec<RoleBinding>> {
        let (tenant, project) = (scope.tenant(), scope.project());
        let args = args![page.after, tenant.is_none(), tenant, project.is_none(), project, page.size];
        self.fetch_all(&ROLE_BINDING_LIST, args).await?.iter().map(role_binding).collect()
    }
}

impl Tx {
    /// Adds a binding.
    pub async fn role_binding_insert(&mut self, binding: &RoleBinding) -> Result<()> {
        let args = args![
            binding.id,
            binding.user_id,
            binding.role.as_str(),
            binding.scope.tenant(),
            binding.scope.project(),
            binding.created_at
        ];
        self.insert(&ROLE_BINDING_INSERT, args).await
    }

    /// Removes a binding.
    pub async fn role_binding_delete(&mut self, id: RoleBindingId) -> Result<()> {
        self.execute_one(&ROLE_BINDING_DELETE, args![id], StoreError::Stale).await
    }

    /// Removes a user's bindings.
    pub async fn role_binding_delete_of_user(&mut self, user: UserId) -> Result<i64> {
        self.execute(&ROLE_BINDING_DELETE_OF_USER, args![user]).await.map(|count| count as i64)
    }

    /// Removes a project's bindings.
    pub async fn role_binding_delete_of_project(&mut self, project: ProjectId) -> Result<i64> {
        self.execute(&ROLE_BINDING_DELETE_OF_PROJECT, args![project]).await.map(|count| count as i64)
    }

    /// Removes the bindings in a tenant and its projects, and those of its users anywhere.
    pub async fn role_binding_delete_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        self.execute(&ROLE_BINDING_DELETE_OF_TENANT, args![tenant]).await.map(|count| count as i64)
    }
}
