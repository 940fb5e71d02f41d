//! The API over real HTTP, on real databases.

mod adapter_step;
mod allocation;
mod artifact;
mod audit;
mod catalog;
mod cell;
mod event;
mod fleet_api;
mod idempotency;
mod identity;
mod input;
mod instance;
mod key;
mod matrix;
mod node_wire;
mod operate;
mod property;
mod registry;
mod sabotage;
mod secret;
mod smoke;
mod stream;
mod webhook;
