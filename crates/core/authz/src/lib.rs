//! Authorization. The policy is the table in `permission.rs`; `decide` evaluates it and returns the reason.
//!
//! A policy language was rejected until a customer needs custom rules: four roles and allow lists fit on a page.

mod contract;
mod decide;
mod permission;

pub use contract::{CONTRACT_PERMISSIONS, GRANTABLE_PERMISSIONS};
pub use decide::{Decision, Grant, Principal, PrincipalKind, decide};
pub use permission::Permission;
