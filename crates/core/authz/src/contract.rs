//! Permissions that every adapter needs in its project, whatever its app: the contract's own verbs.

use crate::Permission;

/// The contract's own permissions. A release's manifest may request more; every adapter account has these.
pub const CONTRACT_PERMISSIONS: &[Permission] = &[
    Permission::AdapterStepLease,
    Permission::AdapterStepList,
    Permission::AdapterStepGet,
    Permission::AdapterStepHeartbeat,
    Permission::AdapterStepProgress,
    Permission::AdapterStepComplete,
    Permission::AdapterStepFail,
    Permission::AdapterTaskCreate,
    Permission::AdapterTaskGet,
    Permission::InstanceGet,
    Permission::MemberList,
    Permission::MemberGet,
];

/// Permissions that a manifest may request besides them. All of them concern the app's own instances, to which its adapter
/// account is confined; permissions over a whole project (its catalog, streams, secrets, other apps) are for the project's
/// users.
pub const GRANTABLE_PERMISSIONS: &[Permission] = &[
    Permission::ProjectGet,
    Permission::CapacityGet,
    Permission::InstanceEndpoints,
    Permission::InstanceUpdate,
    Permission::InstanceScale,
    Permission::MemberAdd,
    Permission::MemberDrain,
    Permission::MemberResume,
    Permission::MemberRemove,
    Permission::MemberReplace,
    Permission::MemberRecover,
    Permission::OperationGet,
    Permission::RuntimeSecretIssue,
    Permission::RuntimeSecretList,
    Permission::RuntimeSecretGet,
    Permission::RuntimeSecretRevoke,
    Permission::RuntimeSecretClusterBootstrap,
];

impl Permission {
    /// Reports whether a manifest may request it.
    pub fn grantable(self) -> bool {
        CONTRACT_PERMISSIONS.contains(&self) || GRANTABLE_PERMISSIONS.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_of_the_contract_can_be_given_to_an_account() {
        for permission in CONTRACT_PERMISSIONS.iter().chain(GRANTABLE_PERMISSIONS) {
            assert!(permission.allowable(), "{}", permission.as_str());
        }
    }
}
