//! People.

use muster_ids::{TenantId, UserId};
use muster_model::{LabelSelector, Login, User};

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT id, tenant_id, email, display_name, password_hash, disabled, labels, created_at, updated_at, version, login, uid
         FROM users "
    };
}

statements! {
    USER_INSERT = both(
        "INSERT INTO users (id, tenant_id, email, display_name, password_hash, disabled, labels, created_at, updated_at,
                            version, login, uid)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)");
    // The row is locked until the transaction ends: whoever looks for a free name afterwards does so alone.
    TENANT_NEXT_UID = both(
        "UPDATE tenants SET next_uid = next_uid + 1 WHERE id = $1 AND next_uid < 60000 RETURNING next_uid - 1");
    USER_LOGIN_TAKEN = both("SELECT 1 FROM users WHERE tenant_id = $1 AND login = $2");
    USER_GET = both(concat!(columns!(), "WHERE id = $1"));
    USER_BY_EMAIL = both(concat!(columns!(), "WHERE email = $1 AND (($2 AND tenant_id IS NULL) OR tenant_id = $3)"));
    USERS_BY_EMAIL = both(concat!(columns!(), "WHERE email = $1 ORDER BY id LIMIT $2"));
    USER_LIST = pair(
        concat!(columns!(), "WHERE id > $1 AND ($2 OR tenant_id = $3) AND ", labels_match!(pg "$5" "$6"),
            "ORDER BY id LIMIT $4"),
        concat!(columns!(), "WHERE id > $1 AND ($2 OR tenant_id = $3) AND ", labels_match!(sqlite "$5" "$6"),
            "ORDER BY id LIMIT $4"));
    USER_UPDATE = both(
        "UPDATE users SET display_name = $2, password_hash = $3, disabled = $4, labels = $5, updated_at = $6,
                          version = version + 1
         WHERE id = $1 AND version = $7");
    USER_DELETE = both("DELETE FROM users WHERE id = $1 AND version = $2");
    USER_DELETE_OF_TENANT = both("DELETE FROM users WHERE tenant_id = $1");
    // Locks the bindings it counts, so that two operators cannot remove each other at once.
    OPERATOR_LOCK = pair(
        "SELECT b.user_id FROM role_bindings b JOIN users u ON u.id = b.user_id
         WHERE b.role = 'platform_operator' AND NOT u.disabled ORDER BY b.user_id FOR UPDATE",
        "SELECT b.user_id FROM role_bindings b JOIN users u ON u.id = b.user_id
         WHERE b.role = 'platform_operator' AND NOT u.disabled ORDER BY b.user_id");
}

/// A person's number inside of cells.
pub(crate) fn number(uid: i64) -> Result<u32> {
    u32::try_from(uid).map_err(|_| StoreError::Corrupt("a person's number"))
}

fn user(row: &Row) -> Result<User> {
    let (name, uid): (Option<String>, Option<i64>) = (row.get(10)?, row.get(11)?);
    Ok(User {
        login: name.zip(uid.map(number).transpose()?).map(|(name, uid)| Login { name, uid }),
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        email: row.get(2)?,
        display_name: row.get(3)?,
        password_hash: row.get(4)?,
        disabled: row.get(5)?,
        labels: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
        version: row.get(9)?,
    })
}

impl Store {
    /// The person with this id.
    pub async fn user_lookup(&self, id: UserId) -> Result<Option<User>> {
        self.fetch_optional(&USER_GET, args![id]).await?.as_ref().map(user).transpose()
    }

    /// The person of a tenant, or of the platform, with this address, lower case.
    pub async fn user_by_email(&self, tenant: Option<TenantId>, email: &str) -> Result<Option<User>> {
        let args = args![email, tenant.is_none(), tenant];
        self.fetch_optional(&USER_BY_EMAIL, args).await?.as_ref().map(user).transpose()
    }

    /// The people of all tenants with this address, so many at most.
    pub async fn users_by_email(&self, email: &str, limit: i64) -> Result<Vec<User>> {
        self.fetch_all(&USERS_BY_EMAIL, args![email, limit]).await?.iter().map(user).collect()
    }

    /// People in order of their adding: everybody, or a tenant's.
    pub async fn user_list(
        &self,
        page: Page,
        tenant: Option<TenantId>,
        labels: &LabelSelector,
    ) -> Result<Vec<User>> {
        let args = args![
            page.after,
            tenant.is_none(),
            tenant,
            page.size,
            labels.equal_json(),
            labels.not_equal_json()
        ];
        self.fetch_all(&USER_LIST, args).await?.iter().map(user).collect()
    }
}

impl Tx {
    /// Adds a person.
    pub async fn user_insert(&mut self, user: &User) -> Result<()> {
        let args = args![
            user.id,
            user.tenant_id,
            &user.email,
            &user.display_name,
            user.password_hash.clone(),
            user.disabled,
            &user.labels,
            user.created_at,
            user.updated_at,
            user.version,
            user.login.as_ref().map(|login| login.name.clone()),
            user.login.as_ref().map(|login| i64::from(login.uid))
        ];
        self.insert(&USER_INSERT, args).await
    }

    /// A number for a person of a tenant that nobody had before; none where all are used up. Until the transaction ends, nobody else
    /// is added to the tenant.
    pub async fn tenant_next_uid(&mut self, tenant: TenantId) -> Result<Option<u32>> {
        let rows = self.fetch_all(&TENANT_NEXT_UID, args![tenant]).await?;
        rows.first().map(|row| number(row.get(0)?)).transpose()
    }

    /// Whether somebody of the tenant has this name inside of cells.
    pub async fn user_login_taken(&mut self, tenant: TenantId, name: &str) -> Result<bool> {
        Ok(!self.fetch_all(&USER_LOGIN_TAKEN, args![tenant, name]).await?.is_empty())
    }

    /// Changes a person's entry that still has the version before `user.version`.
    pub async fn user_update(&mut self, user: &User) -> Result<()> {
        let args = args![
            user.id,
            &user.display_name,
            user.password_hash.clone(),
            user.disabled,
            &user.labels,
            user.updated_at,
            user.version - 1
        ];
        self.execute_one(&USER_UPDATE, args, StoreError::Stale).await
    }

    /// Removes a person whose tokens and bindings are already gone.
    pub async fn user_delete(&mut self, id: UserId, version: i64) -> Result<()> {
        self.execute_one(&USER_DELETE, args![id, version], StoreError::Stale).await
    }

    /// Removes all people of a tenant, whose tokens and bindings are already gone.
    pub async fn user_delete_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        self.execute(&USER_DELETE_OF_TENANT, args![tenant]).await.map(|count| count as i64)
    }

    /// The operators that could still act, locked until the transaction ends.
    pub async fn operators_locked(&mut self) -> Result<Vec<UserId>> {
        self.fetch_all(&OPERATOR_LOCK, args![]).await?.iter().map(|row| row.get(0)).collect()
    }
}
