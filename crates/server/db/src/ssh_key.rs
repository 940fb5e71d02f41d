//! SSH keys of users for the cells of a project, and the logins in those cells.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, NodeId, ProjectId, TenantId, UserId};
use muster_model::cell::SshKey;
use muster_model::{Login, Record as _};

use crate::sql::{Row, args, both, pair, statements};
use crate::user::number;
use crate::{Result, Store, Tx};

/// Logins with their keys, in the order of their numbers.
pub type People = Vec<(Login, Vec<String>)>;

/// Maximum number of users with a login by their role, and of keys, in the cells of one project. Commands refuse more; nodes
/// receive no more in any case.
pub const LOGINS_OF_PROJECT: i64 = 1000;
/// Maximum number of keys in a project.
pub const KEYS_OF_PROJECT: i64 = 500;

/// A cell that users can log in to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeopleCell {
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its allocation.
    pub allocation_id: AllocationId,
    /// Which.
    pub cell_id: CellId,
}

/// Users of the cells of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectPeople {
    /// Users of all cells, with the keys that count in all of them.
    pub everywhere: People,
    /// Further users of the cells of an allocation, and further keys of users of all cells.
    pub in_allocation: BTreeMap<AllocationId, People>,
}

impl ProjectPeople {
    /// Returns all users of the cells of an allocation.
    pub fn of_allocation(&self, allocation: AllocationId) -> People {
        let mut people = self.everywhere.clone();
        for (login, keys) in self.in_allocation.get(&allocation).into_iter().flatten() {
            match people.iter_mut().find(|(known, _)| known.uid == login.uid) {
                Some((_, all)) => all.extend(keys.iter().cloned()),
                None => people.push((login.clone(), keys.clone())),
            }
        }
        people.sort_by_key(|(login, _)| login.uid);
        people
    }
}

statements! {
    SSH_KEY_COUNT = both(
        "SELECT COUNT(CASE WHEN user_id = $2 THEN 1 END), COUNT(*) FROM ssh_keys WHERE project_id = $1");
    // Concurrent creations in a project wait here, so that each counts the keys of those before it.
    SSH_KEY_ORDER = pair(
        "SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE",
        "SELECT id FROM projects WHERE id = $1");
    PEOPLE_CELLS = both(
        "SELECT tenant_id, project_id, allocation_id, id FROM cells
         WHERE node_id = $1 AND people AND state NOT IN ('destroyed', 'failed') ORDER BY project_id, allocation_id, id");
    // A user has a login in a cell while the user may open a terminal there or has a grant for its allocation: login and key
    // are another way to the same shell. A read-only role gives neither.
    PEOPLE_LOGINS = both(
        "SELECT u.login, u.uid FROM users u
         WHERE u.tenant_id = $1 AND NOT u.disabled AND u.login IS NOT NULL AND EXISTS (
            SELECT 1 FROM role_bindings b
            WHERE b.user_id = u.id AND b.tenant_id = $1 AND b.role IN ('tenant_admin', 'project_admin')
              AND (b.project_id IS NULL OR b.project_id = $2))
         ORDER BY u.uid LIMIT $3");
    PEOPLE_KEYS = both(
        "SELECT u.login, u.uid, k.public_key, k.allocation_id, k.granted_by IS NOT NULL FROM ssh_keys k
         JOIN users u ON u.id = k.user_id AND u.tenant_id = $1 AND NOT u.disabled AND u.login IS NOT NULL
         WHERE k.project_id = $2 AND (k.expires_at IS NULL OR k.expires_at > $3) ORDER BY u.uid, k.id LIMIT $4");
    SSH_KEY_EXPIRED = both("SELECT * FROM ssh_keys WHERE expires_at <= $1
            OR allocation_id IN (SELECT id FROM allocations WHERE state IN ('released', 'failed'))
         ORDER BY id LIMIT $2");
    SSH_KEY_DELETE_OF_PROJECT = both("DELETE FROM ssh_keys WHERE project_id = $1");
    SSH_KEY_DELETE_OF_TENANT = both("DELETE FROM ssh_keys WHERE tenant_id = $1");
    SSH_KEY_DELETE_OF_USER = both("DELETE FROM ssh_keys WHERE user_id = $1");
}

impl Store {
    /// Returns keys that have expired, or with an allocation that has ended.
    pub async fn ssh_key_expired(&self, now: Timestamp, limit: i64) -> Result<Vec<SshKey>> {
        self.fetch_all(&SSH_KEY_EXPIRED, args![now, limit]).await?.iter().map(SshKey::from_row).collect()
    }

    /// Returns the cells on a node that users can log in to, in the order of projects and allocations.
    pub async fn people_cells(&self, node: NodeId) -> Result<Vec<PeopleCell>> {
        let rows = self.fetch_all(&PEOPLE_CELLS, args![node]).await?;
        let read = |row: &Row| {
            Ok(PeopleCell {
                tenant_id: row.get(0)?,
                project_id: row.get(1)?,
                allocation_id: row.get(2)?,
                cell_id: row.get(3)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Returns the users of a project's cells with their keys. Each key is read once, however many cells it counts in.
    pub async fn people_of_project(
        &self,
        tenant: TenantId,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<ProjectPeople> {
        let mut found = ProjectPeople::default();
        for row in self.fetch_all(&PEOPLE_LOGINS, args![tenant, project, LOGINS_OF_PROJECT]).await? {
            found.everywhere.push((Login { name: row.get(0)?, uid: number(row.get(1)?)? }, Vec::new()));
        }
        let rows = self.fetch_all(&PEOPLE_KEYS, args![tenant, project, now, KEYS_OF_PROJECT]).await?;
        let mut keys = rows.iter().map(login_key).collect::<Result<Vec<_>>>()?;
        // A user without a role has a login where there is a grant, with all keys that count there.
        let with_role: BTreeMap<u32, usize> =
            found.everywhere.iter().enumerate().map(|(at, (login, _))| (login.uid, at)).collect();
        let granted: BTreeSet<(u32, AllocationId)> = keys
            .iter()
            .filter(|key| key.is_grant && !with_role.contains_key(&key.login.uid))
            .filter_map(|key| Some((key.login.uid, key.allocation_id?)))
            .collect();
        let mut of_guests = Vec::new();
        for key in &keys {
            if key.allocation_id.is_none() && !with_role.contains_key(&key.login.uid) {
                let allocations = granted.iter().filter(|(uid, _)| *uid == key.login.uid);
                of_guests.extend(
                    allocations
                        .map(|(_, allocation)| LoginKey { allocation_id: Some(*allocation), ..key.clone() }),
                );
            }
        }
        keys.extend(of_guests);
        for key in keys {
            match (key.allocation_id, with_role.get(&key.login.uid)) {
                (None, Some(at)) => found.everywhere[*at].1.push(key.public_key),
                (None, None) => {}
                (Some(allocation), role) => {
                    if role.is_some() || granted.contains(&(key.login.uid, allocation)) {
                        let people = found.in_allocation.entry(allocation).or_default();
                        match people.iter_mut().find(|(login, _)| login.uid == key.login.uid) {
                            Some((_, all)) => all.push(key.public_key),
                            None => people.push((key.login, vec![key.public_key])),
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

/// A key with the login of its user.
#[derive(Clone)]
struct LoginKey {
    login: Login,
    public_key: String,
    allocation_id: Option<AllocationId>,
    is_grant: bool,
}

fn login_key(row: &Row) -> Result<LoginKey> {
    Ok(LoginKey {
        login: Login { name: row.get(0)?, uid: number(row.get(1)?)? },
        public_key: row.get(2)?,
        allocation_id: row.get(3)?,
        is_grant: row.get(4)?,
    })
}

impl Tx {
    /// Returns the number of keys that a user has in a project, and of all keys in the project. Until the transaction ends, no other
    /// one counts keys of the project.
    pub async fn ssh_key_count(&mut self, project: ProjectId, user: UserId) -> Result<(i64, i64)> {
        self.fetch_all(&SSH_KEY_ORDER, args![project]).await?;
        let rows = self.fetch_all(&SSH_KEY_COUNT, args![project, user]).await?;
        rows.first().map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
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
