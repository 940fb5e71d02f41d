//! The durable engine: an operation is a list of steps, each with an undo, kept in the database as a journal.
//!
//! An engine leases operations that are due, runs one step after the other, and writes what a step did in the very
//! transaction that writes down that it was done: an effect without its journal, or a journal without its effect, cannot
//! be committed. Every such transaction is fenced by the generation of the lease. What has to happen on a node is not
//! called but asked for (a task in the database) and waited for, so that no transaction and no lease is ever held across
//! a call, and a crash loses nothing but time.
//!
//! In-process futures that are replayed from a log (the usual saga library) were rejected: our waits last hours, and an
//! operator must be able to read, park, supersede and unblock them.

mod adapter;
mod advance;
mod child;
mod death;
mod definition;
mod engine;
mod gather;
mod hooks;
mod kinds;
mod placement;
mod plan;
mod point;
mod proof;
mod releases;
mod remainder;
mod supersede;
mod task;
mod telling;
mod timing;
mod unblock;
mod verdict;

pub mod allocation;
pub mod cell;
pub mod instance;
pub mod member;
pub mod members;
pub mod node;

pub use definition::{Abandon, AtDeadline, Definition, OnFailure, Run, Settle, Step, StepCx, Undo};
pub use engine::{Engine, Tick};
pub use hooks::{Ended, Hooks};
pub use kinds::{KINDS, definition};
pub use placement::{Placed, place};
pub use plan::{Open, open};
pub use point::{Point, Points, Strike, kill_points};
pub use releases::Releases;
pub use supersede::{has_come, successor_of, supersede};
pub use timing::Timing;
pub use unblock::{Unblocked, go_on, unblock};
pub use verdict::{Act, Told, Verdict, Write};
