//! Operations on cells, and their steps, one for each file.

mod act_details;
mod connect;
mod create;
mod destroy;
mod destroy_cell;
mod keep_logs;
mod open;
mod provision;
mod restart;
mod subject;
mod verify_destroyed;
mod verify_running;

pub use act_details::act_details;
pub use create::CREATE;
pub use destroy::DESTROY;
pub(crate) use keep_logs::keep;
pub(crate) use open::choose_ports;
pub use open::{CellRefusal, NODE_PORTS, assign, open};
pub use restart::RESTART;
pub(crate) use subject::{allocation, order, path, seen};
#[cfg(test)]
pub(crate) use verify_running::tests;
pub(crate) use verify_running::{Judged as CellJudged, judge as judge_cell};
