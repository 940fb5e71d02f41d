//! Many workers on two replicas claim and release at once; afterwards everything is counted by hand.
//!
//! `MUSTER_CLAIMS` says how many claims the main test makes (10,000; `make chaos` asks for 100,000), `MUSTER_SEED` which
//! asks they are.

mod fleet;
mod history;
mod load;
mod oracle;
mod races;
mod sabotage;
mod search;
mod stale;
mod worker;
