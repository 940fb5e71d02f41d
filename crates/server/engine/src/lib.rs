//! The durable engine: an operation is a list of steps, each with an undo, kept in the database as a journal.
//!
//! An engine leases operations that are due and runs their steps in order. A step's effects and its journal entry commit in
//! one transaction, so neither can exist without the other, and every such transaction is fenced by the lease generation.
//! Work on a node is queued as a task in the database and awaited, so no transaction or lease is held across a call and a
//! crash costs nothing but time.
//!
//! In-process futures replayed from a log (the usual saga library) were rejected: our waits last hours, and an operator must
//! be able to read, block, supersede and unblock them.

mod act;
mod adapter;
mod advance;
mod bulk_cleanup;
mod child;
mod death;
mod definition;
mod engine;
mod gather;
mod hooks;
mod kinds;
mod outbox;
mod placement;
mod plan;
mod point;
mod proof;
mod releases;
mod resolve;
mod step_outcome;
mod supersede;
mod task;
mod timing;

pub mod allocation;
pub mod cell;
pub mod instance;
pub mod member;
pub mod members;
pub mod node;

pub use act::{StoredAct, parse_act};
pub use definition::{Abandon, AtDeadline, Definition, OnFailure, Run, Settle, Step, StepCx, Undo};
pub use engine::{Engine, Tick};
pub use hooks::{Ended, Hooks};
pub use kinds::{KINDS, definition};
pub use placement::{Placed, place};
pub use plan::{OperationRequest, accept};
pub use point::{Point, Points, Strike, kill_points};
pub use releases::Releases;
pub use resolve::{Unblocked, go_on, resolve, resume_blocked};
pub use step_outcome::{Effects, Statements, StepAction, StepOutcome};
pub use supersede::{has_come, successor_of, supersede};
pub use timing::Timing;
