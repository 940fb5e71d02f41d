//! The API over real HTTP, on real databases.

mod allocation;
mod audit;
mod cell;
mod event;
mod fleet_api;
mod idempotency;
mod identity;
mod input;
mod matrix;
mod node_wire;
mod operate;
mod property;
mod sabotage;
mod smoke;
mod stream;
mod webhook;
