//! The registry's content and documents: ordinary and hostile input, and servers that are killed.

mod crash;
mod finished;
mod lint;
mod manifest;
mod memory;
mod property;
mod shelf;
mod sweep;
mod upload;
