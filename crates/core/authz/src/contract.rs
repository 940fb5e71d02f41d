//! What every adapter needs in the project it works in, whatever its app is: the contract's own verbs.

use crate::Permission;

/// The contract's own permissions. A release's manifest may ask for more; nobody's account has less.
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

/// What a manifest may ask for beside them. All of it concerns the app's own instances, to which whoever operates them is
/// confined; what reaches a whole project (its catalog, streams, secrets, other apps) is for the project's people.
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
    /// Whether a manifest may ask for it.
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
