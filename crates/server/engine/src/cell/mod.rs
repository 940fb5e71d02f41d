//! Operations on cells, and their steps, one for each file.

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

pub use create::CREATE;
pub use destroy::DESTROY;
pub(crate) use keep_logs::keep;
pub(crate) use open::choose_ports;
pub use open::{CellRefusal, NODE_PORTS, assign, open};
pub use restart::RESTART;
pub use subject::cell_target;
pub(crate) use subject::{allocation, destroy_act, inspect_act, keep_logs_act, order, path, pull_act, seen};
#[cfg(test)]
pub(crate) use verify_running::tests;
pub(crate) use verify_running::{Judged as CellJudged, judge as judge_cell};
