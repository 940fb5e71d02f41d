//! Users.

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
    // Locks the row until the transaction ends, so that only one transaction at a time looks for a free login name.
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
    // Locks the bindings it counts, so that two operators cannot remove each other concurrently.
    OPERATOR_LOCK = pair(
        "SELECT b.user_id FROM role_bindings b JOIN users u ON u.id = b.user_id
         WHERE b.role = 'platform_operator' AND NOT u.disabled ORDER BY b.user_id FOR UPDATE",
        "SELECT b.user_id FROM role_bindings b JOIN users u ON u.id = b.user_id
         WHERE b.role = 'platform_operator' AND NOT u.disabled ORDER BY b.user_id");
}

/// Converts a stored uid, the user's numeric id inside cells.
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
    /// Returns the user with this id.
    pub async fn user_lookup(&self, id: UserId) -> Result<Option<User>> {
        self.fetch_optional(&USER_GET, args![id]).await?.as_ref().map(user).transpose()
    }

    /// Returns the user of a tenant, or of the platform, with this lower-case email address.
    pub async fn user_by_email(&self, tenant: Option<TenantId>, email: &str) -> Result<Option<User>> {
        let args = args![email, tenant.is_none(), tenant];
        self.fetch_optional(&USER_BY_EMAIL, args).await?.as_ref().map(user).transpose()
    }

    /// Returns up to `limit` users of all tenants with this email address.
    pub async fn users_by_email(&self, email: &str, limit: i64) -> Result<Vec<User>> {
        self.fetch_all(&USERS_BY_EMAIL, args![email, limit]).await?.iter().map(user).collect()
    }

    /// Returns users in creation order: all of them, or those of a tenant.
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
    /// Adds a user.
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

    /// Allocates a uid that was never used in the tenant; `None` if all are used up. Locks the tenant's row, so that no
    /// other user is added to the tenant until the transaction ends.
    pub async fn tenant_next_uid(&mut self, tenant: TenantId) -> Result<Option<u32>> {
        let rows = self.fetch_all(&TENANT_NEXT_UID, args![tenant]).await?;
        rows.first().map(|row| number(row.get(0)?)).transpose()
    }

    /// Reports whether a user of the tenant already has this login name inside cells.
    pub async fn user_login_taken(&mut self, tenant: TenantId, name: &str) -> Result<bool> {
        Ok(!self.fetch_all(&USER_LOGIN_TAKEN, args![tenant, name]).await?.is_empty())
    }

    /// Updates a user that still has the version before `user.version`.
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

    /// Removes a user. Its tokens and bindings must already be removed.
    pub async fn user_delete(&mut self, id: UserId, version: i64) -> Result<()> {
        self.execute_one(&USER_DELETE, args![id, version], StoreError::Stale).await
    }

    /// Removes all users of a tenant. Their tokens and bindings must already be removed.
    pub async fn user_delete_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        self.execute(&USER_DELETE_OF_TENANT, args![tenant]).await.map(|count| count as i64)
    }

    /// Returns the operators that can still act, locked until the transaction ends.
    pub async fn operators_locked(&mut self) -> Result<Vec<UserId>> {
        self.fetch_all(&OPERATOR_LOCK, args![]).await?.iter().map(|row| row.get(0)).collect()
    }
}
