//! The public contract, apart from the server: what can be asked, in which words, and what comes back.
//!
//! Operations are data (`Operation`), not annotations on handlers: the same table gives the OpenAPI document, the
//! router, the golden list of commands and reads, the access matrix and the command line. Annotating handlers was
//! rejected because the contract would then only compile together with the server and its database.

mod document;
mod operation;
pub mod problem;
mod shape;

pub mod adapter_step;
pub mod allocation;
pub mod app;
pub mod artifact;
pub mod audit;
pub mod capacity;
pub mod cell;
pub mod entitlement;
pub mod event;
pub mod instance;
pub mod key;
pub mod me;
pub mod member;
pub mod network;
pub mod node;
pub mod operations;
pub mod project;
pub mod quota;
pub mod repository;
pub mod role_binding;
pub mod secret;
pub mod service_account;
pub mod session;
pub mod slot;
pub mod ssh_key;
pub mod status;
pub mod stream;
pub mod tenant;
pub mod token;
pub mod user;
pub mod webhook;

pub use document::{VERSION, document, self_contained};
pub use operation::{Answer, Credential, Kind, Method, Operation};
pub use problem::{Code, FieldError, Problem};
pub use shape::{Labels, ListQuery, Object, PageQuery, Shape, shape};

/// Every operation of the public API, in the order of the document.
pub fn operations() -> Vec<Operation> {
    [
        me::OPERATIONS,
        session::OPERATIONS,
        tenant::OPERATIONS,
        project::OPERATIONS,
        user::OPERATIONS,
        role_binding::OPERATIONS,
        service_account::OPERATIONS,
        token::OPERATIONS,
        node::OPERATIONS,
        slot::OPERATIONS,
        quota::OPERATIONS,
        capacity::OPERATIONS,
        allocation::OPERATIONS,
        cell::OPERATIONS,
        network::OPERATIONS,
        ssh_key::OPERATIONS,
        stream::OPERATIONS,
        repository::OPERATIONS,
        artifact::OPERATIONS,
        key::OPERATIONS,
        secret::OPERATIONS,
        app::OPERATIONS,
        entitlement::OPERATIONS,
        instance::OPERATIONS,
        member::OPERATIONS,
        adapter_step::OPERATIONS,
        operations::OPERATIONS,
        event::OPERATIONS,
        webhook::OPERATIONS,
        audit::OPERATIONS,
        status::OPERATIONS,
    ]
    .concat()
}
