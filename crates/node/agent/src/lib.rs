//! The node agent. It dials out and never listens; it executes tasks and reports its observations.
//!
//! Public are the parts that the program assembles (an identity, a machine, a driver, [`run`]), the inventory, the real driver,
//! and in [`driver`] and [`stream`] the interface for another driver. The simulated driver is the crate `muster-agent-sim`.

mod address;
mod backoff;
mod crash;
mod dial;
pub mod driver;
mod error;
mod fence;
mod folder;
mod host_path;
mod identity;
pub mod inventory;
mod join;
mod lanes;
mod link;
mod look;
mod machine;
mod node;
mod observe;
mod outbox;
mod paths;
mod poll;
mod provide;
pub mod real;
mod renew;
mod report;
mod run;
mod self_fencing;
pub mod stream;
mod tenant_slots;
mod trust;
mod work;

pub use address::Address;
pub use crash::{CrashHook, PULL_POINTS};
pub use driver::Driver;
pub use error::AgentError;
pub use folder::{Folder, Lock};
pub use identity::{Identity, Node};
pub use join::{Invitation, authority_fingerprint, check_fresh, join};
pub use link::CallError;
pub use machine::Machine;
pub use node::{Agent, Phase};
pub use run::run;
pub use trust::Trust;
