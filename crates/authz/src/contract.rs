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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_of_the_contract_can_be_given_to_an_account() {
        for permission in CONTRACT_PERMISSIONS {
            assert!(permission.allowable(), "{}", permission.as_str());
        }
    }
}
