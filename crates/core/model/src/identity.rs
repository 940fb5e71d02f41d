//! Tenants, projects, users and service accounts.

use jiff::Timestamp;
use muster_ids::{ProjectId, ServiceAccountId, TenantId, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{Labels, Scope};

/// A tenant: the outermost isolation boundary.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Name, unique on the platform.
    pub slug: String,
    /// Display name.
    pub display_name: String,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// A project: ownership and quota inside a tenant.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// The tenant that owns it.
    pub tenant_id: TenantId,
    /// That tenant's slug.
    #[serde(rename = "tenant")]
    pub tenant_slug: String,
    /// Name, unique in the tenant; `tenant.name` is unique on the platform.
    pub name: String,
    /// Display name.
    pub display_name: String,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Project {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.id)
    }
}

/// A user.
#[derive(Debug, Clone)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The user's tenant; none for platform users.
    pub tenant_id: Option<TenantId>,
    /// Email address, lower case, unique on the platform.
    pub email: String,
    /// Account inside of cells; platform users have none.
    pub login: Option<Login>,
    /// Display name.
    pub display_name: String,
    /// Argon2id in PHC form; absent until a password is set.
    pub password_hash: Option<String>,
    /// A disabled user can neither log in nor use a token.
    pub disabled: bool,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl User {
    /// Returns the scope in which the user is administered.
    pub fn scope(&self) -> Scope {
        self.tenant_id.map_or(Scope::Platform, Scope::Tenant)
    }
}

/// A user's account inside of cells: one name and one uid, the same in every cell of the tenant. A uid is never reused, so
/// files of a removed user fall to no other user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Name in the passwd file.
    pub name: String,
    /// Both uid and gid.
    pub uid: u32,
}

/// Account names used by images. A user with such a name gets a number appended.
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
    /// Longest name: some tools accept no longer one, and a number may follow.
    const LONGEST: usize = 24;

    /// Returns the preferred name for an address, and a fallback if that is taken. The fallback ends in a unique number and
    /// the preferred name never ends in one, so the fallback is always free.
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

/// An identity for automation inside one project.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ServiceAccount {
    /// Its id.
    pub id: ServiceAccountId,
    /// The tenant of its project.
    #[serde(skip)]
    pub tenant_id: TenantId,
    /// Its project; it has no access elsewhere.
    pub project_id: ProjectId,
    /// Its name, unique in the project.
    pub name: String,
    /// Description.
    pub description: String,
    /// Its permissions; none are implied.
    pub permissions: Vec<String>,
    /// Whether its tokens are refused.
    pub disabled: bool,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl ServiceAccount {
    /// Returns its scope.
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
