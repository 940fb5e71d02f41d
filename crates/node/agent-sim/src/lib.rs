//! The simulated node: an agent like any other, whose sandboxes and cells are records in a file.
//!
//! It serves laptops (`muster up --simulated`), fleets of a thousand nodes in one process, and tests, which inject faults and
//! end the process at crash points. It implements [`muster_agent::Driver`], and `muster-agent` does not depend on it: all of
//! the protocol, the fences and the reports that it exercises are those of a real node.

mod cell;
mod control;
mod descriptors;
mod driver;
mod fake_gpus;
mod faults;
mod fleet;
mod hardware;
mod holdings;
mod journal;
mod kill;
mod program;
mod streams;

pub use control::Word;
pub use descriptors::raise_descriptors;
pub use driver::{Driver, Surroundings};
pub use fake_gpus::fake_gpus;
pub use faults::{Faults, Odds};
pub use fleet::{Fleet, Member};
pub use hardware::{FakeGpus, simulated_inventory};
pub use journal::{Effect, Journal, Line};
pub use kill::{HAS_KILL_POINTS, KILL_POINTS, KillPoints};
