//! Adapter framework on top of the SDK: an adapter is a separate program that implements an app class through the public
//! API, with only the token of a service account.
//!
//! An adapter implements [`Adapter`], one method per verb, and ends `main` with [`main`]. The kit does the rest: it
//! leases steps, keeps the leases, drops a step immediately when its lease is lost, and reports its outcome. A step acts
//! in cells through its [`StepCx`], which turns every action into a task with an idempotency key, so that a repeated step
//! does not repeat its effects. `docs/guides/write-an-adapter.md` is the tutorial.
//!
//! It only uses the public API, so everything here can be implemented in any other language.

mod act;
mod adapter;
mod backoff;
mod carry;
mod command;
mod credential;
mod identity;
mod lease;
mod logs;
mod options;
mod platform;
mod publisher;
mod run;
mod share;
mod step;
mod stop;
mod work;

pub use act::{command, file, probe};
pub use adapter::{Adapter, Done, Failure, Outcome};
pub use command::{main, main_with};
pub use identity::{Account, Identity, StartError, connect, connect_from_env};
pub use muster_sdk::types;
pub use options::Options;
pub use run::run;
pub use step::StepCx;
pub use stop::{Stop, Stopper, stop};

/// Version of the adapter contract that this kit implements.
pub const CONTRACT: i64 = 1;
