//! Resources and their rules. Everything here is a pure function or a plain value.

pub mod adapter;
pub mod allocation;
pub mod app;
pub mod artifact;
pub mod assess;
pub mod audit;
pub mod cell;
pub mod event;
pub mod gpu_product;
pub mod health;
pub mod hex;
pub mod identity;
pub mod instance;
pub mod labels;
pub mod member;
pub mod name;
pub mod node;
pub mod operation;
pub mod operation_input;
pub mod origin;
pub mod placement;
pub mod quorum;
mod reason;
pub mod record;
pub mod release;
pub mod repair;
pub mod resource;
pub mod role;
pub mod scope;
pub mod secret;
mod state;
pub mod task;
pub mod token;
pub mod webhook;
pub mod witness;

pub use identity::{Login, Project, ServiceAccount, Tenant, User};
pub use labels::{LabelSelector, Labels};
pub use name::Name;
pub use record::{Record, RecordVisitor};
pub use resource::{Resource, ResourceVisitor};
pub use role::{Role, RoleBinding};
pub use scope::Scope;

/// Visits every resource with the common verbs: the one list that contract, handlers, statements and tests follow.
pub fn visit_resources(visitor: &mut impl ResourceVisitor) {
    visitor.visit::<gpu_product::GpuProduct>();
}

/// Visits every stored resource that is declared by `record!`.
pub fn visit_records(visitor: &mut impl RecordVisitor) {
    visitor.visit::<artifact::PublisherKey>();
    visitor.visit::<cell::SshKey>();
    visitor.visit::<secret::ProjectSecret>();
    visit_resources(&mut resource::AsRecords(visitor));
}
