//! The simulated counterpart of a node: all of the agent is real except the sandboxes.

mod cell;
mod control;
mod descriptors;
mod driver;
mod faults;
mod fleet;
mod holdings;
mod journal;
mod kill;
mod program;

pub use control::Word;
pub use descriptors::raise_descriptors;
pub use driver::{Driver, Surroundings};
pub use faults::{Faults, Odds};
pub use fleet::{Fleet, Member};
pub use journal::{Effect, Journal, Line};
pub use kill::{KILL_POINTS, KillPoints, PULL_POINTS, real_points};
