//! The public contract, independent of the server: endpoints, request types and response types.
//!
//! Endpoints are data (`Endpoint`), not annotations on handlers: the OpenAPI document, the router, the golden list of
//! commands and reads, the access matrix and the command line are all derived from one table. Annotating handlers was
//! rejected because the contract would then only compile together with the server and its database.

mod document;
mod endpoint;
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
pub mod operation;
pub mod project;
pub mod quota;
pub mod repository;
pub mod resource;
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
pub use endpoint::{Answer, Credential, Endpoint, Kind, Method};
pub use problem::{Code, FieldError, Problem};
pub use shape::{Labels, ListQuery, Object, PageQuery, Shape, shape};

/// Returns every endpoint of the public API, in the order of the document.
pub fn endpoints() -> Vec<Endpoint> {
    let mut all = [
        me::ENDPOINTS,
        session::ENDPOINTS,
        tenant::ENDPOINTS,
        project::ENDPOINTS,
        user::ENDPOINTS,
        role_binding::ENDPOINTS,
        service_account::ENDPOINTS,
        token::ENDPOINTS,
        node::ENDPOINTS,
        slot::ENDPOINTS,
        quota::ENDPOINTS,
        capacity::ENDPOINTS,
        allocation::ENDPOINTS,
        cell::ENDPOINTS,
        network::ENDPOINTS,
        ssh_key::ENDPOINTS,
        stream::ENDPOINTS,
        repository::ENDPOINTS,
        artifact::ENDPOINTS,
        key::ENDPOINTS,
        secret::ENDPOINTS,
        app::ENDPOINTS,
        entitlement::ENDPOINTS,
        instance::ENDPOINTS,
        member::ENDPOINTS,
        adapter_step::ENDPOINTS,
        operation::ENDPOINTS,
        event::ENDPOINTS,
        webhook::ENDPOINTS,
        audit::ENDPOINTS,
        status::ENDPOINTS,
    ]
    .concat();
    all.extend(resource::endpoints());
    all
}
