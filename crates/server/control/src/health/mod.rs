//! Health of instances and members, computed in one place from all sources: agents on cells, loss detection on nodes,
//! adapters on members. Storing such a fact triggers an assessment of the instance (`assess.rs`); changes through time alone
//! are found by the watch (`watch.rs`). The consequences are decided in `restart.rs` and `repair.rs`.

mod assess;
mod observation;
mod repair;
mod restart;
mod watch;

pub(crate) use assess::{Assessed, CONFIRM_HEARTBEATS, Facts, assess_in, bounds};
pub(crate) use observation::store_report;
