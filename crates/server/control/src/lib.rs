//! The use cases. A noun is a directory, a verb is a file; the command pipeline (`pipeline.rs`) is the only entry point for
//! commands.
//!
//! A command's file prepares: look-ups, authorization, planning and hashing, without an open transaction. The resulting
//! `PreparedCommand` holds the statements; the command pipeline runs them in one transaction together with the idempotency key, the
//! audit entry and the events, so that no verb can omit them.

mod authn;
mod bootstrap;
mod commit;
mod cursor;
mod cx;
mod error;
mod health;
mod keyed_locks;
mod limits;
mod metrics;
mod outbox;
mod pipeline;
mod platform;
mod resolve;
mod revalidate;
mod tail;

pub mod adapter;
pub mod adapter_step;
pub mod adapter_task;
pub mod allocation;
pub mod app;
pub mod app_version;
pub mod artifact;
pub mod audit;
pub mod capacity;
pub mod cell;
pub mod entitlement;
pub mod event;
pub mod fleet;
pub mod instance;
pub mod key;
pub mod me;
pub mod member;
pub mod network;
pub mod node;
pub mod operation;
pub mod operator_token;
pub mod outbound;
pub mod project;
pub mod quota;
pub mod registry;
pub mod repository;
pub mod resource;
pub mod role_binding;
pub mod runtime_secret;
pub mod secret;
pub mod service_account;
pub mod session;
pub mod slot;
pub mod ssh_key;
pub mod status;
pub mod stream;
pub mod tenant;
pub mod token;
pub mod trust_policy;
pub mod user;
pub mod webhook;

pub use authn::Authenticated;
pub use bootstrap::{FirstStart, first_start};
pub use commit::{Answer, PreparedCommand};
pub use cx::{Cx, Expected};
pub use error::{Error, Result};
pub use limits::{
    AnswerSlot, InFlight, Limits, RateDecision, Rates, Share, StreamKind, StreamSlot, UnreadBytes,
};
pub use metrics::{Metrics, RequestLabels, Word};
pub use pipeline::{Command, Reply, execute, prepare_and_execute};
pub use platform::{Keys, Options, Platform};
pub use tail::Tail;
