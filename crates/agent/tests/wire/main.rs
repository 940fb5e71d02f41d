//! The agent against a scripted server that speaks the wire over real TLS.

mod cells;
mod crash;
mod fleet;
mod join;
mod killed;
mod machine;
mod server;
mod session;
mod tasks;
