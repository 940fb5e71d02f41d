//! What every adapter needs, on the SDK alone: an adapter is a program of its own that gives an app class its meaning,
//! through the public API, with the token of a service account and nothing else.
//!
//! Who writes one implements [`Adapter`], one method a verb, and ends `main` with [`main`]. The kit does the rest: it leases
//! steps, keeps the leases, gives a step up at once when somebody else has it, and says how it ended. What a step does in
//! cells it does through its [`StepCx`], whose every deed becomes a task with a key, so that a step that is run again does
//! not do twice what was done once. `docs/guides/write-an-adapter.md` walks through all of it.
//!
//! It knows the public API and nothing else of the platform, so nothing here can be done that another language could not.

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

/// The version of the adapter's contract that this kit speaks.
pub const CONTRACT: i64 = 1;
