//! The node agent. It dials out, never listens; it does what tasks say and reports what it saw.

mod address;
mod backoff;
mod dial;
mod error;
mod fence;
mod folder;
mod identity;
pub mod inventory;
mod join;
mod lanes;
mod link;
mod look;
mod machine;
mod node;
mod outbox;
mod paths;
mod poll;
mod pretence;
mod renew;
mod report;
mod run;
pub mod sim;
mod trust;
mod work;

pub use address::Address;
pub use error::AgentError;
pub use folder::{Folder, Lock};
pub use identity::{Identity, Node};
pub use join::{Invitation, authority_fingerprint, check_fresh, join};
pub use link::CallError;
pub use machine::Machine;
pub use node::{Agent, Phase};
pub use pretence::pretence;
pub use run::run;
pub use trust::Trust;
