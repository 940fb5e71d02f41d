//! The agent against a scripted server that speaks the wire over real TLS.

mod acts;
mod alone;
mod cells;
mod crash;
mod fleet;
mod join;
mod killed;
mod machine;
mod pull;
mod real;
mod real_acts;
mod real_disk;
mod real_room;
mod registry;
mod resume;
mod secret;
mod server;
mod session;
mod tasks;
mod trust;
