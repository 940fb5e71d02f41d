//! The use-cases. A noun is a folder, a verb is a file; the door (`door.rs`) is the only way in for commands.
//!
//! A command's file prepares: look-ups, authorization, planning, hashing, with no transaction open. What it returns (a
//! `Commit`) holds the statements; the door runs them in one transaction together with the idempotency key, the audit
//! entry and the events, so that no verb can forget them.

mod authn;
mod bootstrap;
mod commit;
mod cursor;
mod cx;
mod deliverer;
mod door;
mod due;
mod envelope;
mod health;
mod keyed_locks;
mod limits;
mod metrics;
mod outbound;
mod password;
mod places;
mod platform;
mod refuse;
mod reseal;
mod resolve;
mod root_key;
mod sealer;
mod sweeper;
mod tail;
mod telling;

pub mod adapter;
pub mod adapter_step;
pub mod adapter_task;
pub mod allocation;
pub mod app;
pub mod app_version;
pub mod artifact;
pub mod audit;
pub mod authority;
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
pub mod project;
pub mod quota;
pub mod registry;
pub mod repository;
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
pub use commit::{Answer, Commit};
pub use cx::{Cx, Expected};
pub use door::{Command, Reply, execute};
pub use limits::{InFlight, Limits, Open, Opened, Rates, Share, Verdict};
pub use metrics::{Metrics, RequestLabels};
pub use platform::{Keys, Options, Platform};
pub use refuse::Result;
pub use root_key::{RootKeyError, RootKeys};
pub use sealer::{SealError, Sealer};
pub use tail::Tail;
