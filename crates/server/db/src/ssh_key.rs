//! SSH keys of users for the cells of a project, and the logins in those cells.

use jiff::Timestamp;
use muster_ids::{CellId, NodeId, ProjectId, SshKeyId, TenantId, UserId};
use muster_model::Login;
use muster_model::cell::SshKey;

use crate::sql::{Row, args, both, statements};
use crate::user::number;
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, user_id, name, public_key, fingerprint, created_at, version, allocation_id, expires_at, granted_by"
    };
}

/// Logins with their keys.
pub type People = Vec<(Login, Vec<String>)>;

statements! {
    SSH_KEY_INSERT = both(concat!("INSERT INTO ssh_keys (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $10, $11)"));
    SSH_KEY_GET = both(concat!("SELECT ", columns!(), " FROM ssh_keys WHERE id = $1"));
    SSH_KEY_LIST = both(concat!("SELECT ", columns!(), " FROM ssh_keys WHERE id > $1 AND project_id = $2
         ORDER BY id LIMIT $3"));
    SSH_KEY_COUNT = both(
        "SELECT COUNT(CASE WHEN user_id = $2 THEN 1 END), COUNT(*) FROM ssh_keys WHERE project_id = $1");
    SSH_KEY_DELETE = both("DELETE FROM ssh_keys WHERE id = $1");
    // A user has a login in a cell while the user may open a terminal there or has a grant for its allocation: login and key
    // are another way to the same shell. A read-only role gives neither.
    PEOPLE_OF_NODE = both(
        "SELECT c.id, u.login, u.uid, k.public_key FROM cells c
         LEFT JOIN users u ON u.tenant_id = c.tenant_id AND NOT u.disabled AND (EXISTS (
            SELECT 1 FROM role_bindings b
            WHERE b.user_id = u.id AND b.tenant_id = c.tenant_id AND b.role IN ('tenant_admin', 'project_admin')
              AND (b.project_id IS NULL OR b.project_id = c.project_id))
            OR EXISTS (SELECT 1 FROM ssh_keys g
            WHERE g.user_id = u.id AND g.allocation_id = c.allocation_id AND g.granted_by IS NOT NULL AND g.expires_at > $2))
         LEFT JOIN ssh_keys k ON k.project_id = c.project_id AND k.user_id = u.id
            AND (k.allocation_id IS NULL OR k.allocation_id = c.allocation_id)
            AND (k.expires_at IS NULL OR k.expires_at > $2)
         WHERE c.node_id = $1 AND c.people AND c.state NOT IN ('gone', 'failed') ORDER BY c.id, u.uid, k.id");
    SSH_KEY_EXPIRED = both(concat!("SELECT ", columns!(), " FROM ssh_keys WHERE expires_at <= $1
            OR allocation_id IN (SELECT id FROM allocations WHERE state IN ('released', 'failed'))
         ORDER BY id LIMIT $2"));
    SSH_KEY_DELETE_OF_PROJECT = both("DELETE FROM ssh_keys WHERE project_id = $1");
    SSH_KEY_DELETE_OF_TENANT = both("DELETE FROM ssh_keys WHERE tenant_id = $1");
    SSH_KEY_DELETE_OF_USER = both("DELETE FROM ssh_keys WHERE user_id = $1");
}

fn ssh_key(row: &Row) -> Result<SshKey> {
    Ok(SshKey {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        user_id: row.get(3)?,
        name: row.get(4)?,
        public_key: row.get(5)?,
        fingerprint: row.get(6)?,
        created_at: row.get(7)?,
        version: row.get(8)?,
        allocation_id: row.get(9)?,
        expires_at: row.get(10)?,
        granted_by: row.get(11)?,
    })
}

impl Store {
    /// Returns the number of keys that a user has in a project, and of all keys in the project.
    pub async fn ssh_key_count(&self, project: ProjectId, user: UserId) -> Result<(i64, i64)> {
        let row = self.fetch_optional(&SSH_KEY_COUNT, args![project, user]).await?;
        row.map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the key with this id.
    pub async fn ssh_key_lookup(&self, id: SshKeyId) -> Result<Option<SshKey>> {
        self.fetch_optional(&SSH_KEY_GET, args![id]).await?.as_ref().map(ssh_key).transpose()
    }

    /// Returns a project's keys in creation order.
    pub async fn ssh_key_list(&self, page: Page, project: ProjectId) -> Result<Vec<SshKey>> {
        let args = args![page.after, project, page.size];
        self.fetch_all(&SSH_KEY_LIST, args).await?.iter().map(ssh_key).collect()
    }

    /// Returns keys that have expired, or with an allocation that has ended.
    pub async fn ssh_key_expired(&self, now: Timestamp, limit: i64) -> Result<Vec<SshKey>> {
        self.fetch_all(&SSH_KEY_EXPIRED, args![now, limit]).await?.iter().map(ssh_key).collect()
    }

    /// Returns the logins with their keys for each cell on a node that has logins enabled, in order; includes cells without
    /// any.
    pub async fn people_of_node(&self, node: NodeId, now: Timestamp) -> Result<Vec<(CellId, People)>> {
        let mut cells: Vec<(CellId, People)> = Vec::new();
        for row in self.fetch_all(&PEOPLE_OF_NODE, args![node, now]).await? {
            let cell: CellId = row.get(0)?;
            if cells.last().is_none_or(|(last, _)| *last != cell) {
                cells.push((cell, Vec::new()));
            }
            let (name, uid): (Option<String>, Option<i64>) = (row.get(1)?, row.get(2)?);
            let (Some((_, people)), Some((name, uid))) = (cells.last_mut(), name.zip(uid)) else { continue };
            let uid = number(uid)?;
            if people.last().is_none_or(|(last, _)| last.uid != uid) {
                people.push((Login { name, uid }, Vec::new()));
            }
            if let (Some((_, keys)), Some(key)) = (people.last_mut(), row.get(3)?) {
                keys.push(key);
            }
        }
        Ok(cells)
    }
}

impl Tx {
    /// Adds a key.
    pub async fn ssh_key_insert(&mut self, key: &SshKey) -> Result<()> {
        let args = args![
            key.id,
            key.tenant_id,
            key.project_id,
            key.user_id,
            &key.name,
            &key.public_key,
            &key.fingerprint,
            key.created_at,
            key.allocation_id,
            key.expires_at,
            key.granted_by
        ];
        self.execute(&SSH_KEY_INSERT, args).await.map(drop)
    }

    /// Removes a key.
    pub async fn ssh_key_delete(&mut self, id: SshKeyId) -> Result<()> {
        self.execute_one(&SSH_KEY_DELETE, args![id], StoreError::Gone("SSH key".to_owned())).await
    }

    /// Removes the keys of a project and returns how many there were.
    pub async fn ssh_key_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&SSH_KEY_DELETE_OF_PROJECT, args![project]).await
    }

    /// Removes the keys of all projects of a tenant.
    pub async fn ssh_key_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&SSH_KEY_DELETE_OF_TENANT, args![tenant]).await
    }

    /// Removes the keys of a user.
    pub async fn ssh_key_delete_of_user(&mut self, user: UserId) -> Result<u64> {
        self.execute(&SSH_KEY_DELETE_OF_USER, args![user]).await
    }
}
