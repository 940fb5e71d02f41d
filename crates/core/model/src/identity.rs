//! Tenants, projects, people and service accounts.

use jiff::Timestamp;
use muster_ids::{ProjectId, ServiceAccountId, TenantId, UserId};

use crate::{Labels, Scope};

/// The outer wall of isolation.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Its name, unique on the platform.
    pub slug: String,
    /// What people read.
    pub display_name: String,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// Ownership and quota inside a tenant.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// The owner.
    pub tenant_id: TenantId,
    /// The owner's slug.
    pub tenant_slug: String,
    /// Its name, unique in the tenant.
    pub name: String,
    /// What people read.
    pub display_name: String,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Project {
    /// Where it is.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.id)
    }
}

/// A person.
#[derive(Debug, Clone)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The tenant that the person belongs to; platform people belong to none.
    pub tenant_id: Option<TenantId>,
    /// The address, lower case, unique on the platform.
    pub email: String,
    /// Who the person is inside of cells; platform people are nobody there.
    pub login: Option<Login>,
    /// What people read.
    pub display_name: String,
    /// Argon2id in PHC form; absent until a password was set.
    pub password_hash: Option<String>,
    /// A disabled person can neither log in nor use a token.
    pub disabled: bool,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl User {
    /// Where the person is administered.
    pub fn scope(&self) -> Scope {
        self.tenant_id.map_or(Scope::Platform, Scope::Tenant)
    }
}

/// Who a person is inside of cells: one name and one number, the same in every cell of the tenant's. A number is given once and never
/// again: what belonged to somebody who left is nobody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// As it stands in a passwd file.
    pub name: String,
    /// User and group alike.
    pub uid: u32,
}

/// Names that images have for accounts of their own. Whoever would be called so is told from them by a number.
const TAKEN: [&str; 20] = [
    "root",
    "daemon",
    "bin",
    "sys",
    "sync",
    "games",
    "man",
    "lp",
    "mail",
    "news",
    "uucp",
    "proxy",
    "backup",
    "list",
    "irc",
    "nobody",
    "sshd",
    "messagebus",
    "adm",
    "operator",
];

impl Login {
    /// The longest name: some tools take no longer one, and a number may follow.
    const LONGEST: usize = 24;

    /// What somebody with this address would best be called, and what else if that is taken. The second ends in a number that nobody
    /// else has, and the first never ends in one: so the second is always free.
    pub fn names(email: &str, uid: u32) -> (Option<String>, String) {
        let local = email.split('@').next().unwrap_or_default().to_lowercase();
        let fits = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '-' };
        let name: String = local.chars().map(fits).collect();
        let name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase()).trim_end_matches('-');
        let name = if name.is_empty() { "user" } else { &name[..name.len().min(Self::LONGEST)] };
        let numbered =
            name.rsplit_once('-').is_some_and(|(_, end)| end.bytes().all(|byte| byte.is_ascii_digit()));
        let free = name != "user" && !TAKEN.contains(&name) && !numbered;
        (free.then(|| name.to_owned()), format!("{name}-{uid}"))
    }
}

/// Automation inside one project.
#[derive(Debug, Clone)]
pub struct ServiceAccount {
    /// Its id.
    pub id: ServiceAccountId,
    /// The tenant of its project.
    pub tenant_id: TenantId,
    /// Its project, outside of which it can do nothing.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The allow list: permissions by name, nothing implied.
    pub permissions: Vec<String>,
    /// A disabled account's tokens are refused.
    pub disabled: bool,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl ServiceAccount {
    /// Where it lives.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gives_a_name_that_no_image_has() {
        for (email, best, other) in [
            ("ada@acme.example", Some("ada"), "ada-30000"),
            ("Ada.Lovelace+ml@acme.example", Some("ada-lovelace-ml"), "ada-lovelace-ml-30000"),
            ("root@acme.example", None, "root-30000"),
            ("007@acme.example", None, "user-30000"),
            ("-x:0:0@acme.example", None, "x-0-0-30000"),
            ("ada-30001@acme.example", None, "ada-30001-30000"),
            ("ädä@acme.example", Some("d"), "d-30000"),
            (
                "a-name-that-is-longer-than-any-tool-takes@x.example",
                Some("a-name-that-is-longer-th"),
                "a-name-that-is-longer-th-30000",
            ),
        ] {
            assert_eq!(Login::names(email, 30_000), (best.map(str::to_owned), other.to_owned()), "{email}");
        }
    }
}
