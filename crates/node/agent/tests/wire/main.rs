//! The agent against a scripted server that implements the wire protocol over real TLS.

mod acts;
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
mod self_fencing;
mod server;
mod session;
mod tasks;
mod trust;
