//! Who may do what. The policy is the table in `permission.rs`; `decide` reads it and says why.
//!
//! A policy language was rejected until a customer asks for rules of its own: four roles and allow lists fit on a page.

mod contract;
mod decide;
mod permission;

pub use contract::{CONTRACT_PERMISSIONS, GRANTABLE_PERMISSIONS};
pub use decide::{Decision, Grant, Principal, PrincipalKind, decide};
pub use permission::Permission;
