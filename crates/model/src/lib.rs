//! The nouns and their rules. Everything here is a pure function or a plain value.

pub mod audit;
pub mod event;
pub mod hex;
pub mod identity;
pub mod labels;
pub mod name;
pub mod placement;
pub mod role;
pub mod scope;
pub mod token;
pub mod webhook;

pub use identity::{Project, ServiceAccount, Tenant, User};
pub use labels::{LabelSelector, Labels};
pub use name::Name;
pub use role::{Role, RoleBinding};
pub use scope::Scope;
