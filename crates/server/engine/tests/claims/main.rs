//! Many workers on two replicas claim and release concurrently; afterwards everything is counted independently.
//!
//! `MUSTER_CLAIMS` sets the number of claims of the main test (10,000; `make soak` uses 100,000), `MUSTER_SEED` selects the
//! requests.

mod fleet;
mod history;
mod load;
mod oracle;
mod races;
mod sabotage;
mod search;
mod stale;
mod worker;
