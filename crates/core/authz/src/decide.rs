//! One function from (principal, permission, scope) to a decision with its reason.

use muster_ids::{ProjectId, ServiceAccountId, TenantId, UserId};
use muster_model::{Role, Scope};

use crate::Permission;

/// A role at a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// Its scope.
    pub scope: Scope,
}

/// A principal, with everything that the decision needs.
#[derive(Debug, Clone)]
pub struct Principal {
    /// User or service account.
    pub kind: PrincipalKind,
    /// Email address or name.
    pub name: String,
}

/// The two kinds of principals.
#[derive(Debug, Clone)]
pub enum PrincipalKind {
    /// A user, with roles.
    User {
        /// Id of the user.
        id: UserId,
        /// The user's tenant; none for platform users.
        tenant: Option<TenantId>,
        /// The roles.
        grants: Vec<Grant>,
    },
    /// A service account, with an allow list.
    ServiceAccount {
        /// Id of the account.
        id: ServiceAccountId,
        /// Tenant of its project.
        tenant: TenantId,
        /// Its project.
        project: ProjectId,
        /// Its permissions there.
        permissions: Vec<Permission>,
    },
}

impl Principal {
    /// Returns the id as text, unique over both kinds.
    pub fn id(&self) -> String {
        match &self.kind {
            PrincipalKind::User { id, .. } => id.to_string(),
            PrincipalKind::ServiceAccount { id, .. } => id.to_string(),
        }
    }

    /// Returns the name of its kind.
    pub fn kind_word(&self) -> &'static str {
        match self.kind {
            PrincipalKind::User { .. } => "user",
            PrincipalKind::ServiceAccount { .. } => "service_account",
        }
    }

    /// Returns its tenant; `None` for platform users.
    pub fn tenant(&self) -> Option<TenantId> {
        match self.kind {
            PrincipalKind::User { tenant, .. } => tenant,
            PrincipalKind::ServiceAccount { tenant, .. } => Some(tenant),
        }
    }

    /// Reports whether it may know that something exists at `scope`: it holds any grant inside or around it. Otherwise the
    /// response is the same as if the resource did not exist.
    pub fn sees(&self, scope: Scope) -> bool {
        match &self.kind {
            PrincipalKind::User { grants, tenant, .. } => {
                grants.iter().any(|grant| grant.scope.contains(scope) || scope_touches(grant.scope, scope))
                    || matches!((tenant, scope), (Some(mine), Scope::Tenant(theirs)) if *mine == theirs)
                    || scope == Scope::Platform
            }
            PrincipalKind::ServiceAccount { tenant, project, .. } => match scope {
                Scope::Platform => true,
                Scope::Tenant(theirs) => *tenant == theirs,
                Scope::Project(_, theirs) => *project == theirs,
            },
        }
    }
}

/// Reports whether `other` is the tenant of the project `mine`: a project's users may know that tenant.
fn scope_touches(mine: Scope, other: Scope) -> bool {
    matches!((mine, other), (Scope::Project(tenant, _), Scope::Tenant(theirs)) if tenant == theirs)
}

/// A decision, always with its reason: it appears in `can-i`, in errors and in the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, with the reason.
    Allowed(String),
    /// Denied, with the reason; the resource may be known to exist.
    Denied(String),
    /// Denied, without revealing whether the resource exists.
    Invisible,
}

impl Decision {
    /// Reports whether it is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed(_))
    }
}

/// Decides whether a principal has a permission at a scope.
pub fn decide(principal: &Principal, permission: Permission, scope: Scope) -> Decision {
    let word = permission.as_str();
    if !principal.sees(scope) {
        return Decision::Invisible;
    }
    match &principal.kind {
        PrincipalKind::User { grants, .. } => {
            let held = grants.iter().find(|grant| {
                grant.role.fits(grant.scope) && grant.scope.contains(scope) && permission.held_by(grant.role)
            });
            match held {
                Some(grant) => {
                    Decision::Allowed(format!("{word} is granted by the role {}", grant.role.as_str()))
                }
                None => {
                    Decision::Denied(format!("permission denied: {word} (your role here: {})", roles(grants)))
                }
            }
        }
        PrincipalKind::ServiceAccount { project, permissions, .. } => {
            if scope.project() != Some(*project) {
                Decision::Denied(format!("{word} is outside the service account's own project"))
            } else if !permission.allowable() {
                Decision::Denied(format!("{word} can never be given to a service account"))
            } else if permissions.contains(&permission) {
                Decision::Allowed(format!("{word} is in the service account's allow list"))
            } else {
                Decision::Denied(format!("{word} is not in the service account's allow list"))
            }
        }
    }
}

fn roles(grants: &[Grant]) -> String {
    if grants.is_empty() {
        return "you have none".to_owned();
    }
    grants.iter().map(|grant| grant.role.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_ids::Env;
    use proptest::prelude::*;

    /// Two tenants with two projects each: enough for every boundary.
    fn scopes() -> Vec<Scope> {
        let env = Env::for_tests(3);
        let mut all = vec![Scope::Platform];
        for _ in 0..2 {
            let tenant = env.id();
            all.push(Scope::Tenant(tenant));
            all.extend((0..2).map(|_| Scope::Project(tenant, env.id())));
        }
        all
    }

    /// The policy once more, as brute force over the scopes of each role.
    fn model_allows(role: Role, bound: Scope, permission: Permission, scope: Scope) -> bool {
        let inside = match (role, bound, scope) {
            (Role::PlatformOperator, Scope::Platform, _) => true,
            (Role::TenantAdmin, Scope::Tenant(a), Scope::Tenant(b) | Scope::Project(b, _)) => a == b,
            (Role::ProjectAdmin | Role::ProjectViewer, Scope::Project(_, a), Scope::Project(_, b)) => a == b,
            _ => false,
        };
        inside && permission.held_by(role)
    }

    proptest! {
        #[test]
        fn decisions_equal_the_brute_force_model(
            bindings in proptest::collection::vec((0usize..4, 0usize..7), 0..4),
            permission in 0..Permission::ALL.len(),
            scope in 0usize..7,
        ) {
            let scopes = scopes();
            let grants: Vec<Grant> =
                bindings.iter().map(|(role, at)| Grant { role: Role::ALL[*role], scope: scopes[*at] }).collect();
            let permission = Permission::ALL[permission];
            let expected =
                grants.iter().any(|grant| model_allows(grant.role, grant.scope, permission, scopes[scope]));
            let principal = Principal {
                kind: PrincipalKind::User { id: Env::for_tests(9).id(), tenant: None, grants },
                name: String::new(),
            };
            prop_assert_eq!(decide(&principal, permission, scopes[scope]).is_allowed(), expected);
        }

        #[test]
        fn a_service_account_acts_in_its_own_project_by_its_own_list_alone(
            listed in proptest::collection::vec(0..Permission::ALL.len(), 0..5),
            permission in 0..Permission::ALL.len(),
            scope in 0usize..7,
        ) {
            let scopes = scopes();
            let Scope::Project(tenant, project) = scopes[2] else { unreachable!() };
            let permissions: Vec<Permission> = listed.iter().map(|at| Permission::ALL[*at]).collect();
            let permission = Permission::ALL[permission];
            let expected = scope == 2 && permission.allowable() && permissions.contains(&permission);
            let principal = Principal {
                kind: PrincipalKind::ServiceAccount { id: Env::for_tests(9).id(), tenant, project, permissions },
                name: String::new(),
            };
            prop_assert_eq!(decide(&principal, permission, scopes[scope]).is_allowed(), expected);
        }
    }
}
