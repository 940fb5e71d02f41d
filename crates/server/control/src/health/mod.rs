//! How instances and their members do, computed in one place from everything that reports on them: agents on cells, the loss
//! watch on nodes, adapters on members. Whoever stores such a fact has the instance assessed (`assess.rs`); what changes by the
//! passing of time alone is found by the watch (`watch.rs`). What follows from it is decided in `restart.rs`
//! and `repair.rs`.

mod assess;
mod observation;
mod repair;
mod restart;
mod watch;

pub(crate) use assess::{Assessed, CONFIRM_HEARTBEATS, Facts, assess_in, bounds};
pub(crate) use observation::store_report;
