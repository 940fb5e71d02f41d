//! The engine on both databases, over a node that is made up: every step of every operation failed, repeated and killed.

mod adapter;
mod apps;
mod harness;
mod laws;
mod line;
mod node;
mod rig;
mod stories;
